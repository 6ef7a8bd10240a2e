//! A member of a group, and what it is asked and answered.

use std::time::Duration;

use bytes::Bytes;
use ixion::OperationId;
use ixion::kafka::ErrorCode;
use ixion::kafka::heartbeat::Phase;
use kafka_protocol::protocol::StrBytes;
use tokio::sync::oneshot;

/// A protocol that a member can follow, and what it says about itself there.
pub(crate) type Protocol = (StrBytes, Bytes);

/// What somebody who joins says. Nothing in it holds on to the request's frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct JoinRequest {
    pub(crate) client_id: StrBytes,
    /// Empty if it is new.
    pub(crate) member_id: StrBytes,
    pub(crate) instance_id: Option<StrBytes>,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocol_type: StrBytes,
    pub(crate) protocols: Vec<Protocol>,
    /// Whether a new member is told its id first and comes again with it.
    pub(crate) needs_member_id: bool,
}

/// What somebody who joins is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) error: ErrorCode,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<StrBytes>,
    pub(crate) protocol: Option<StrBytes>,
    pub(crate) leader: StrBytes,
    pub(crate) member_id: StrBytes,
    /// For the leader: everybody's id, instance and what they say about themselves.
    pub(crate) members: Vec<(StrBytes, Option<StrBytes>, Bytes)>,
}

impl Joined {
    pub(crate) fn refused(error: ErrorCode, member_id: StrBytes) -> Self {
        Joined { error, generation: -1, member_id, ..Joined::default() }
    }
}

/// What a request names itself with: all must be right, as far as it is said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    pub(crate) member_id: StrBytes,
    pub(crate) instance_id: Option<StrBytes>,
    pub(crate) generation: i32,
}

/// What a member that synchronizes says.
#[derive(Debug, Clone, Default)]
pub(crate) struct SyncRequest {
    pub(crate) identity: Identity,
    pub(crate) protocol_type: Option<StrBytes>,
    pub(crate) protocol: Option<StrBytes>,
    /// From the leader: the assignment of each member.
    pub(crate) assignments: Vec<(StrBytes, Bytes)>,
}

/// What a member that synchronizes is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Synced {
    pub(crate) error: ErrorCode,
    pub(crate) protocol_type: Option<StrBytes>,
    pub(crate) protocol: Option<StrBytes>,
    pub(crate) assignment: Bytes,
}

impl Synced {
    pub(crate) fn refused(error: ErrorCode) -> Self {
        Synced { error, ..Synced::default() }
    }
}

/// Somebody who waits for an answer. Sending it runs no foreign code, so it may be done under a lock; that nobody
/// listens any more is no matter.
pub(crate) type Waiter<A> = oneshot::Sender<A>;

/// One member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<StrBytes>,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    pub(super) protocols: Vec<Protocol>,
    pub(super) assignment: Bytes,
    /// Its parked request to join.
    pub(super) joining: Option<Waiter<Joined>>,
    /// Its parked request to synchronize.
    pub(super) syncing: Option<Waiter<Synced>>,
    /// Whether it has never been answered a generation.
    pub(super) is_new: bool,
    pub(super) session: Option<OperationId>,
}

impl Member {
    pub(super) fn new(request: JoinRequest, session: Option<OperationId>, waiter: Waiter<Joined>) -> Self {
        Member {
            instance_id: request.instance_id,
            session_timeout: request.session_timeout,
            rebalance_timeout: request.rebalance_timeout,
            protocols: request.protocols,
            assignment: Bytes::new(),
            joining: Some(waiter),
            syncing: None,
            is_new: true,
            session,
        }
    }

    /// Takes what a member says that joins once more.
    pub(super) fn update(&mut self, request: JoinRequest) {
        self.session_timeout = request.session_timeout;
        self.rebalance_timeout = request.rebalance_timeout;
        self.protocols = request.protocols;
    }

    /// What its session is to know of it.
    pub(super) fn phase(&self) -> Phase {
        if self.is_new {
            Phase::New
        } else if self.joining.is_some() || self.syncing.is_some() {
            Phase::Parked
        } else {
            Phase::Live
        }
    }

    /// What it says about itself in a protocol.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| name.as_str() == protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| name.as_str() == protocol)
    }
}
