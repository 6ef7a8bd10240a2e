//! A member of a consumer group: it joins, shares the partitions out if it is the leader, and sends heartbeats.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiKey, ConsumerProtocolAssignment, ConsumerProtocolSubscription, GroupId, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::client::{Client, name, other, wrong};

const JOIN_VERSION: i16 = 7;
const SYNC_VERSION: i16 = 5;
const HEARTBEAT_VERSION: i16 = 4;
const LEAVE_VERSION: i16 = 4;
/// Of what members tell each other.
const CONSUMER_VERSION: i16 = 0;

const NONE: i16 = 0;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;

/// What all members of a group have in common.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) address: SocketAddr,
    pub(super) name: &'static str,
    pub(super) topic: &'static str,
    pub(super) partitions: i32,
    pub(super) session: Duration,
    /// How often a member says that it is there.
    pub(super) interval: Duration,
}

/// How a member ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It says nothing, and is gone.
    Killed,
    Leaves,
}

/// What a member knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge {
    /// Its partitions; none while a rebalance is going on.
    pub(super) partitions: Vec<i32>,
    /// When it was last told of a rebalance.
    pub(super) rebalanced: Option<Instant>,
}

/// A running member. It ends without a word if this is dropped.
pub(super) struct Member {
    knowledge: watch::Receiver<Knowledge>,
    end: oneshot::Sender<End>,
    task: JoinSet<Result<Instant, String>>,
}

impl Member {
    pub(super) fn start(group: Group) -> Member {
        let (told, knowledge) = watch::channel(Knowledge::default());
        let (end, ended) = oneshot::channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let run = async { Running::connect(group, told).await?.run(ended).await };
            run.await.map_err(|error| format!("a member of {}: {error}", group.name))
        });
        Member { knowledge, end, task }
    }

    pub(super) fn knowledge(&self) -> Knowledge {
        self.knowledge.borrow().clone()
    }

    /// Whether it has given up.
    pub(super) fn failure(&mut self) -> Option<String> {
        let ended = self.task.try_join_next()?;
        Some(ended.map_or_else(|error| error.to_string(), |ended| ended.err().unwrap_or_default()))
    }

    /// Ends it. Returns when it last said that it was there; if it leaves, when it said so.
    pub(super) async fn end(mut self, end: End) -> Result<Instant, String> {
        // If it has ended already, it says why.
        let _ = self.end.send(end);
        let ended = self.task.join_next().await.ok_or("a member has no task")?;
        ended.map_err(|error| error.to_string())?
    }
}

struct Running {
    group: Group,
    client: Client,
    told: watch::Sender<Knowledge>,
    id: StrBytes,
    generation: i32,
}

impl Running {
    async fn connect(group: Group, told: watch::Sender<Knowledge>) -> std::io::Result<Running> {
        let client = Client::connect(group.address).await?;
        Ok(Running { group, client, told, id: StrBytes::default(), generation: -1 })
    }

    async fn run(mut self, mut ended: oneshot::Receiver<End>) -> std::io::Result<Instant> {
        loop {
            let assignments = self.join().await?;
            let mut last_sign = Instant::now();
            let Some(partitions) = self.sync(assignments).await? else { continue };
            self.told.send_modify(|knowledge| knowledge.partitions = partitions);
            loop {
                tokio::select! {
                    end = &mut ended => match end {
                        Ok(End::Leaves) => return self.leave().await,
                        Ok(End::Killed) | Err(_) => return Ok(last_sign),
                    },
                    () = tokio::time::sleep(self.group.interval) => {}
                }
                let sent = Instant::now();
                match self.heartbeat().await? {
                    NONE => last_sign = sent,
                    REBALANCE_IN_PROGRESS => break,
                    error => return Err(wrong(format!("a heartbeat was answered with error {error}"))),
                }
            }
            let now = Instant::now();
            self.told.send_replace(Knowledge { partitions: Vec::new(), rebalanced: Some(now) });
        }
    }

    /// Joins. Returns who is to have what, if it is for this member to say.
    async fn join(&mut self) -> std::io::Result<Vec<SyncGroupRequestAssignment>> {
        let topics = vec![StrBytes::from_static_str(self.group.topic)];
        let subscription = encode(&ConsumerProtocolSubscription::default().with_topics(topics))?;
        loop {
            let protocol = JoinGroupRequestProtocol::default()
                .with_name(StrBytes::from_static_str("range"))
                .with_metadata(subscription.clone());
            let request = JoinGroupRequest::default()
                .with_group_id(self.group_id())
                .with_member_id(self.id.clone())
                .with_session_timeout_ms(i32::try_from(self.group.session.as_millis()).map_err(other)?)
                .with_rebalance_timeout_ms(60_000)
                .with_protocol_type(StrBytes::from_static_str("consumer"))
                .with_protocols(vec![protocol]);
            let reply: JoinGroupResponse = self.client.ask(ApiKey::JoinGroup, JOIN_VERSION, &request).await?;
            self.id = reply.member_id.clone();
            match reply.error_code {
                NONE => {
                    self.generation = reply.generation_id;
                    return self.share_out(&reply);
                }
                MEMBER_ID_REQUIRED => {}
                error => return Err(wrong(format!("joining was answered with error {error}"))),
            }
        }
    }

    /// Only the leader is told who is there.
    fn share_out(&self, joined: &JoinGroupResponse) -> std::io::Result<Vec<SyncGroupRequestAssignment>> {
        let mut shares: BTreeMap<&StrBytes, Vec<i32>> =
            joined.members.iter().map(|member| (&member.member_id, Vec::new())).collect();
        let count = shares.len().max(1);
        for (number, share) in shares.values_mut().enumerate() {
            *share = (0..self.group.partitions).skip(number).step_by(count).collect();
        }
        let assignment = |(id, partitions): (&StrBytes, Vec<i32>)| {
            let topic =
                TopicPartition::default().with_topic(name(self.group.topic)).with_partitions(partitions);
            let assignment = ConsumerProtocolAssignment::default().with_assigned_partitions(vec![topic]);
            Ok(SyncGroupRequestAssignment::default()
                .with_member_id(id.clone())
                .with_assignment(encode(&assignment)?))
        };
        shares.into_iter().map(assignment).collect()
    }

    /// Learns its partitions; nothing, if there is a rebalance again.
    async fn sync(
        &mut self,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> std::io::Result<Option<Vec<i32>>> {
        let request = SyncGroupRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(self.generation)
            .with_member_id(self.id.clone())
            .with_protocol_type(Some(StrBytes::from_static_str("consumer")))
            .with_protocol_name(Some(StrBytes::from_static_str("range")))
            .with_assignments(assignments);
        let reply: SyncGroupResponse = self.client.ask(ApiKey::SyncGroup, SYNC_VERSION, &request).await?;
        match reply.error_code {
            NONE => {
                let mut bytes = reply.assignment;
                let version = bytes.try_get_i16().map_err(other)?;
                let assignment = ConsumerProtocolAssignment::decode(&mut bytes, version).map_err(other)?;
                Ok(Some(
                    assignment.assigned_partitions.into_iter().flat_map(|topic| topic.partitions).collect(),
                ))
            }
            REBALANCE_IN_PROGRESS => Ok(None),
            error => Err(wrong(format!("synchronizing was answered with error {error}"))),
        }
    }

    async fn heartbeat(&mut self) -> std::io::Result<i16> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(self.generation)
            .with_member_id(self.id.clone());
        let reply: HeartbeatResponse =
            self.client.ask(ApiKey::Heartbeat, HEARTBEAT_VERSION, &request).await?;
        Ok(reply.error_code)
    }

    async fn leave(&mut self) -> std::io::Result<Instant> {
        let itself = MemberIdentity::default().with_member_id(self.id.clone());
        let request = LeaveGroupRequest::default().with_group_id(self.group_id()).with_members(vec![itself]);
        let sent = Instant::now();
        let reply: LeaveGroupResponse = self.client.ask(ApiKey::LeaveGroup, LEAVE_VERSION, &request).await?;
        let error = reply.members.first().map_or(reply.error_code, |member| member.error_code);
        if error == NONE { Ok(sent) } else { Err(wrong(format!("leaving was answered with error {error}"))) }
    }

    fn group_id(&self) -> GroupId {
        GroupId(StrBytes::from_static_str(self.group.name))
    }
}

/// What members tell each other begins with its version.
fn encode(message: &impl Encodable) -> std::io::Result<Bytes> {
    let mut bytes = BytesMut::new();
    bytes.put_i16(CONSUMER_VERSION);
    message.encode(&mut bytes, CONSUMER_VERSION).map_err(other)?;
    Ok(bytes.freeze())
}
