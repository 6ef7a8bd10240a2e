//! JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ixion::kafka::ErrorCode;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::codec::{Request, Unanswerable, own};
use crate::group::member::{Identity, JoinRequest, Joined, SyncRequest, Synced};
use crate::handlers::{Session, gone, milliseconds};

/// From this version on a new member is told its id and comes again with it.
const MEMBER_ID_FIRST: i16 = 4;
/// The most bytes that are kept of what a member says of itself, and of what it is assigned. A group of ten thousand
/// partitions takes a tenth of that.
const MAX_SAID: usize = 1 << 20;

/// Joins; waits for the other members.
pub(super) async fn join(
    session: &Session,
    peer: &TcpStream,
    mut request: Request,
) -> Result<BytesMut, Unanswerable> {
    let asked: JoinGroupRequest = request.decode()?;
    let version = request.version;
    let said: usize =
        asked.protocols.iter().map(|protocol| protocol.name.len() + protocol.metadata.len()).sum();
    let joined = if said > MAX_SAID {
        Joined::refused(ErrorCode::INVALID_REQUEST, own(&asked.member_id))
    } else if session.leads() {
        let (sender, receiver) = oneshot::channel();
        session.cluster.groups.join(&asked.group_id, join_request(&request, &asked), sender);
        let member_id = own(&asked.member_id);
        drop(asked);
        answered(peer, receiver).await?.unwrap_or_else(|error| Joined::refused(error, member_id))
    } else {
        Joined::refused(ErrorCode::NOT_COORDINATOR, own(&asked.member_id))
    };
    request.encode(&join_reply(joined, version))
}

/// Synchronizes; waits for the leader.
pub(super) async fn sync(
    session: &Session,
    peer: &TcpStream,
    mut request: Request,
) -> Result<BytesMut, Unanswerable> {
    let asked: SyncGroupRequest = request.decode()?;
    let synced = if asked.assignments.iter().any(|one| one.assignment.len() > MAX_SAID) {
        Synced::refused(ErrorCode::INVALID_REQUEST)
    } else if session.leads() {
        let (sender, receiver) = oneshot::channel();
        session.cluster.groups.sync(&asked.group_id, sync_request(&asked), sender);
        drop(asked);
        answered(peer, receiver).await?.unwrap_or_else(Synced::refused)
    } else {
        Synced::refused(ErrorCode::NOT_COORDINATOR)
    };
    let reply = SyncGroupResponse::default()
        .with_error_code(synced.error.as_i16())
        .with_assignment(synced.assignment);
    let reply = if request.version >= 5 {
        reply.with_protocol_type(synced.protocol_type).with_protocol_name(synced.protocol)
    } else {
        reply
    };
    request.encode(&reply)
}

pub(super) fn heartbeat(session: &Session, asked: &HeartbeatRequest) -> HeartbeatResponse {
    let error = if session.leads() {
        let identity = identity(&asked.member_id, asked.group_instance_id.as_ref(), asked.generation_id);
        session.cluster.groups.heartbeat(&asked.group_id, &identity)
    } else {
        ErrorCode::NOT_COORDINATOR
    };
    HeartbeatResponse::default().with_error_code(error.as_i16())
}

pub(super) fn leave(session: &Session, asked: &LeaveGroupRequest, version: i16) -> LeaveGroupResponse {
    let reply = LeaveGroupResponse::default();
    if !session.leads() {
        return reply.with_error_code(ErrorCode::NOT_COORDINATOR.as_i16());
    }
    let groups = &session.cluster.groups;
    if version < 3 {
        return reply.with_error_code(groups.leave(&asked.group_id, &own(&asked.member_id), None).as_i16());
    }
    let members = asked.members.iter().map(|member| {
        let instance = member.group_instance_id.as_ref();
        let error = groups.leave(&asked.group_id, &own(&member.member_id), instance);
        MemberResponse::default()
            .with_member_id(member.member_id.clone())
            .with_group_instance_id(member.group_instance_id.clone())
            .with_error_code(error.as_i16())
    });
    reply.with_members(members.collect())
}

pub(super) fn identity(member_id: &StrBytes, instance_id: Option<&StrBytes>, generation: i32) -> Identity {
    Identity { member_id: own(member_id), instance_id: instance_id.map(own), generation }
}

/// Waits for an answer. A member that hangs up stays in its group; only its request is over.
async fn answered<A>(
    peer: &TcpStream,
    receiver: oneshot::Receiver<A>,
) -> Result<Result<A, ErrorCode>, Unanswerable> {
    tokio::select! {
        biased;
        // Without an answer there is no group any more, or the member has asked once more elsewhere.
        answer = receiver => Ok(answer.map_err(|_| ErrorCode::COORDINATOR_NOT_AVAILABLE)),
        () = gone(peer) => Err(Unanswerable::Silent("the client has gone")),
    }
}

fn join_request(request: &Request, asked: &JoinGroupRequest) -> JoinRequest {
    let protocols = asked.protocols.iter();
    JoinRequest {
        client_id: request.client_id.clone(),
        member_id: own(&asked.member_id),
        instance_id: asked.group_instance_id.as_ref().map(own),
        session_timeout: milliseconds(asked.session_timeout_ms),
        rebalance_timeout: rebalance_timeout(asked),
        protocol_type: own(&asked.protocol_type),
        protocols: protocols
            .map(|protocol| (own(&protocol.name), Bytes::copy_from_slice(&protocol.metadata)))
            .collect(),
        needs_member_id: request.version >= MEMBER_ID_FIRST,
    }
}

/// How long a member may take to join. Version 0 does not say: then it is its session.
pub(super) fn rebalance_timeout(asked: &JoinGroupRequest) -> Duration {
    milliseconds(if asked.rebalance_timeout_ms == -1 {
        asked.session_timeout_ms
    } else {
        asked.rebalance_timeout_ms
    })
}

fn join_reply(joined: Joined, version: i16) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|(id, instance, metadata)| {
        let member = JoinGroupResponseMember::default().with_member_id(id).with_metadata(metadata);
        if version >= 5 { member.with_group_instance_id(instance) } else { member }
    });
    let reply = JoinGroupResponse::default()
        .with_error_code(joined.error.as_i16())
        .with_generation_id(joined.generation)
        // Null only where it may be.
        .with_protocol_name(if version >= 7 {
            joined.protocol
        } else {
            joined.protocol.or(Some(StrBytes::default()))
        })
        .with_leader(joined.leader)
        .with_member_id(joined.member_id)
        .with_members(members.collect());
    if version >= 7 { reply.with_protocol_type(joined.protocol_type) } else { reply }
}

fn sync_request(asked: &SyncGroupRequest) -> SyncRequest {
    let assignments = asked.assignments.iter();
    SyncRequest {
        identity: identity(&asked.member_id, asked.group_instance_id.as_ref(), asked.generation_id),
        protocol_type: asked.protocol_type.as_ref().map(own),
        protocol: asked.protocol_name.as_ref().map(own),
        assignments: assignments
            .map(|one| (own(&one.member_id), Bytes::copy_from_slice(&one.assignment)))
            .collect(),
    }
}
