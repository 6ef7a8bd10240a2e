//! One member: it joins, beats, joins again when its group does, and falls silent if it is the one to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiKey, GroupId, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::{Phase, Shared};
use crate::demo::Verdict;
use crate::demo::client::Client;

/// The last in which members do not say why they join, and the like: as most clients do.
const JOIN_VERSION: i16 = 5;
const SYNC_VERSION: i16 = 3;
const HEARTBEAT_VERSION: i16 = 3;
const LEAVE_VERSION: i16 = 3;

const NONE: i16 = 0;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;

const PROTOCOL: StrBytes = StrBytes::from_static_str("range");
/// Nobody is left behind because it joins late.
const REBALANCE_TIMEOUT_MS: i32 = 60_000;

pub(super) struct Member {
    shared: Arc<Shared>,
    group: usize,
    number: usize,
    client: Client,
    id: StrBytes,
    generation: i32,
    /// What it says about itself when it joins.
    about: &'static [u8],
}

impl Member {
    pub(super) fn new(shared: Arc<Shared>, group: usize, number: usize, client: Client) -> Member {
        Member { shared, group, number, client, id: StrBytes::default(), generation: -1, about: b"first" }
    }

    pub(super) async fn live(mut self) -> Verdict {
        let (group, number) = (self.group, self.number);
        self.live_on().await.map_err(|wrong| format!("member {number} of group {group}: {wrong}"))
    }

    async fn live_on(&mut self) -> Verdict {
        self.join(self.shared.shape.group_size).await?;
        self.shared.joined.fetch_add(1, Ordering::Relaxed);
        let mut phases = self.shared.phase.subscribe();
        let mut regroups = true;
        loop {
            let phase = *phases.borrow_and_update();
            if phase == Phase::End {
                return self.end().await;
            }
            let sent = Instant::now();
            let goes_on = self.beat(phase).await?;
            let one_is_silent = self.shared.last_beats[self.group].get();
            match one_is_silent {
                None if phase == Phase::Silence && self.is_silent() && goes_on => {
                    return self.fall_silent(sent).await;
                }
                None if !goes_on => self.join(self.shared.shape.group_size).await?,
                // What the first says of itself has changed, so all must join again.
                Some(_) if regroups && (self.number == 0 || !goes_on) => {
                    regroups = false;
                    self.about = if self.number == 0 { b"again" } else { self.about };
                    self.regroup().await?;
                }
                // Others have gone already.
                _ if !goes_on && *phases.borrow() == Phase::End => {}
                _ if !goes_on => return Err("its group joins again, and there is no reason for it".into()),
                _ => {}
            }
            if phase < Phase::Rush {
                let until = phases.wait_for(|phase| *phase >= Phase::Rush);
                // In its own step, not in that of all who wait for the same.
                drop(tokio::time::timeout(self.shared.shape.beat(), until).await);
            }
        }
    }

    fn is_silent(&self) -> bool {
        self.number == self.shared.shape.group_size - 1
    }

    fn group_id(&self) -> GroupId {
        GroupId(StrBytes::from_string(format!("group-{}", self.group)))
    }

    /// Joins and synchronizes, again if somebody has come meanwhile. Its group has at most so many members.
    async fn join(&mut self, most: usize) -> Verdict {
        loop {
            let joined = self.ask_to_join().await?;
            match joined.error_code {
                NONE => {}
                MEMBER_ID_REQUIRED => {
                    self.id = joined.member_id;
                    continue;
                }
                error => return Err(format!("to join is answered with error {error}")),
            }
            if joined.members.len() > most {
                return Err(format!("{} members where there are {most}", joined.members.len()));
            }
            self.generation = joined.generation_id;
            if self.sync(joined).await? {
                return Ok(());
            }
        }
    }

    async fn ask_to_join(&mut self) -> Result<JoinGroupResponse, String> {
        let session_ms = i32::try_from(self.shared.shape.session.as_millis()).unwrap_or(i32::MAX);
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(PROTOCOL)
            .with_metadata(Bytes::from_static(self.about));
        let request = JoinGroupRequest::default()
            .with_group_id(self.group_id())
            .with_session_timeout_ms(session_ms)
            .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
            .with_member_id(self.id.clone())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![protocol]);
        self.client.ask(ApiKey::JoinGroup, JOIN_VERSION, &request).await.map_err(broken)
    }

    /// Synchronizes; the leader gives everybody its own id. False: the group joins again.
    async fn sync(&mut self, joined: JoinGroupResponse) -> Result<bool, String> {
        let assign = |id: StrBytes| {
            let own = Bytes::from(id.as_bytes().to_vec());
            SyncGroupRequestAssignment::default().with_member_id(id).with_assignment(own)
        };
        let assignments = joined.members.into_iter().map(|member| assign(member.member_id));
        let request = SyncGroupRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(self.generation)
            .with_member_id(self.id.clone())
            .with_assignments(assignments.collect());
        let synced: SyncGroupResponse =
            self.client.ask(ApiKey::SyncGroup, SYNC_VERSION, &request).await.map_err(broken)?;
        match synced.error_code {
            NONE if synced.assignment == self.id.as_bytes() => Ok(true),
            NONE => Err("it has the assignment of somebody else".into()),
            REBALANCE_IN_PROGRESS => Ok(false),
            error => Err(format!("to synchronize is answered with error {error}")),
        }
    }

    /// Joins again, and so waits for the eviction of the silent one.
    async fn regroup(&mut self) -> Verdict {
        let (shared, group) = (self.shared.clone(), self.group);
        let last_beat = *shared.last_beats[group].get().ok_or("nobody is silent yet")?;
        let sent = Instant::now();
        {
            let mut last_joins = shared.last_joins.lock().expect("nobody panics in here");
            last_joins[group] = last_joins[group].max(Some(sent));
        }
        let joined = self.ask_to_join().await?;
        let after = last_beat.elapsed();
        let left = shared.shape.group_size - 1;
        match (joined.error_code, joined.members.len()) {
            (NONE, members) if members == 0 || members == left => {}
            other => return Err(format!("(error, members) are {other:?} where {left} members are left")),
        }
        if after < shared.shape.session {
            return Err(format!("a member was evicted early: after {after:?}"));
        }
        // All are answered at once: one says how late.
        if self.number == 0 {
            shared.measured.lock().expect("nobody panics in here").evictions.push((group, after));
        }
        self.generation = joined.generation_id;
        if !self.sync(joined).await? {
            return Err("the group joins again though nobody has come or gone".into());
        }
        shared.regrouped.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn ask_to_beat(&mut self) -> Result<i16, String> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(self.generation)
            .with_member_id(self.id.clone());
        let answer = self.client.ask(ApiKey::Heartbeat, HEARTBEAT_VERSION, &request).await;
        answer.map(|answer: HeartbeatResponse| answer.error_code).map_err(broken)
    }

    /// Gives a sign of life. False: its group joins again.
    async fn beat(&mut self, phase: Phase) -> Result<bool, String> {
        let sent = Instant::now();
        let error = self.ask_to_beat().await?;
        self.shared.beats.fetch_add(1, Ordering::Relaxed);
        if phase == Phase::Beat {
            self.shared.measured.lock().expect("nobody panics in here").beats.push(sent.elapsed());
        }
        match error {
            NONE => Ok(true),
            REBALANCE_IN_PROGRESS => Ok(false),
            UNKNOWN_MEMBER_ID => Err("it was evicted though it was heard".into()),
            error => Err(format!("a heartbeat is answered with error {error}")),
        }
    }

    /// Is heard no more, though its connection is open, and finds that it was evicted.
    async fn fall_silent(&mut self, last_beat: Instant) -> Verdict {
        let shared = self.shared.clone();
        shared.last_beats[self.group].set(last_beat).map_err(|_| "two are silent in a group")?;
        let mut phases = shared.phase.subscribe();
        drop(phases.wait_for(|phase| *phase == Phase::End).await);
        match self.ask_to_beat().await? {
            UNKNOWN_MEMBER_ID => Ok(()),
            error => Err(format!("it was silent, and then a heartbeat is answered with error {error}")),
        }
    }

    /// Leaves, or hangs up and lets its session run out.
    async fn end(&mut self) -> Verdict {
        if self.group.is_multiple_of(2) {
            return Ok(());
        }
        let own = MemberIdentity::default().with_member_id(self.id.clone());
        let request = LeaveGroupRequest::default().with_group_id(self.group_id()).with_members(vec![own]);
        let left: LeaveGroupResponse =
            self.client.ask(ApiKey::LeaveGroup, LEAVE_VERSION, &request).await.map_err(broken)?;
        match (left.error_code, left.members.first().map(|member| member.error_code)) {
            (NONE, Some(NONE)) => Ok(()),
            other => Err(format!("to leave is answered with {other:?}")),
        }
    }
}

fn broken(error: io::Error) -> String {
    error.to_string()
}
