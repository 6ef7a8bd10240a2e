//! The delayed operations of a Kafka-like broker.
//!
//! A broker of this kind answers many requests late: they wait for what other requests bring about, and are answered when
//! their time is up. Each is here as a [`DelayedOperation`](crate::DelayedOperation). They know no log, no network and no
//! encoding: what they ask of a partition, a group or a topic is a small trait that the broker implements, and what they
//! answer goes to a closure.
//!
//! Where more than a question is to be answered, a function decides, free of side effects, such as [`produce::decide`], so
//! that the rules can be tested with states made by hand. The rules have numbers, as *p1 … p13* for produce; the lists stand
//! at the heads of the modules.
//!
//! | operation | waits for | keys | signalled by | answer | when its time is up |
//! |---|---|---|---|---|---|
//! | [`DelayedProduce`] | records with `acks=all` to be replicated | partition, at the offset | a higher high watermark; loss of the partition | success or error for each partition | `REQUEST_TIMED_OUT` for those that are pending |
//! | [`DelayedFetch`] | enough bytes | partition; consumers and followers apart | log end or high watermark, truncation, loss | the log is read again | the same |
//! | [`DelayedDeleteRecords`] | the low watermark of each partition to reach an offset | partition, at the offset | a follower's log start, a replica that dies; loss | low watermark or error for each | `REQUEST_TIMED_OUT` for those that are pending |
//! | [`DelayedJoin`] | all members of a group to join | group | a join, a leave, a removal; the group's end | next generation, of those who joined | the same; an [initial](join::InitialDelay) one begins again while members arrive |
//! | [`DelayedSync`] | all members of a generation to sync | group | a sync, a removal, a new rebalance | nothing | who has not synced is removed, and the group rebalanced |
//! | [`DelayedHeartbeat`] | the end of a member's session; heartbeats move its deadline | member | its removal | nothing | the member is removed, and the group rebalanced |
//! | [`DelayedCreatePartitions`], [`DelayedDeleteTopics`] | the work on each topic to be done everywhere | topic | a server that serves or has dropped it | success or error for each topic | a last look, then `REQUEST_TIMED_OUT` |
//! | [`DelayedElectLeader`] | the metadata to show the elected leaders | partition | an update of the metadata | success or error for each partition | a last look, then `REQUEST_TIMED_OUT` |
//! | [`DelayedFuture`] | several jobs to be done | the request | a job that is done | each result | those not done are cancelled first, then `REQUEST_TIMED_OUT` |
//! | [`DelayedRemoteListOffsets`] | the same, of partitions | partition | a job that is done; loss | each result or error | as above |
//! | [`DelayedRemoteFetch`] | reads from remote storage, until two deadlines | partition | a read that is done; loss | local data and results | with nothing to send it waits on, once; then reads are cancelled first |
//! | [`DelayedShareFetch`] | records that a share group may acquire | partition of the group, and partition | an acknowledgement, a release, a lock given back; high watermark, loss | what it has locked is read | takes what locks there are |
//!
//! Produce, deletions, topics, elections and jobs are [requests](request) of several parts, each pending until it is decided.
//!
//! An operation can end otherwise, by force or with the purgatory: its answer is called with that
//! [`Outcome`](crate::Outcome), and what is not decided stays as it is.
//!
//! # How a broker uses them
//!
//! 1. Do what can be done: append the records, read the log, take the member in.
//! 2. Ask whether waiting is called for: [`produce::must_wait`], [`fetch::FirstRead::answers_at_once`].
//! 3. If so, hand the operation to a [`Purgatory`](crate::Purgatory) with its keys.
//! 4. Whoever changes what is waited for signals the key *afterwards*, and holds no lock that a look takes: the look runs
//!    on that thread and takes the same locks. [`reset_timeout`](crate::Purgatory::reset_timeout) runs no look, so a
//!    heartbeat may hold the group's.
//! 5. An answer runs without a lock. What it needs to be sure of it asks again, under the lock that it then takes.
//!
//! A key has one meaning, and its numbers one scale. What followers fetch ends at the log's end and what consumers fetch at
//! the high watermark: two keys, or every append would wake consumers who cannot see it yet. Those who wait for the
//! last stable offset watch a third one, unless that is the high watermark. Joins, syncs and heartbeats of a group have
//! purgatories of their own, or keys of different kinds.
//!
//! # At numbers
//!
//! With one look for each request that waits, a partition on which ten thousand wait pays for all of them at each event. These
//! know a number before which no look can succeed, and say [where](crate::Watch::at) they wait:
//!
//! | | waits at | an event says | signalled to all |
//! |---|---|---|---|
//! | [`DelayedProduce::watches`] | the offset that it requires | the high watermark | what else decides a partition: p5, p6 |
//! | [`DelayedDeleteRecords::watches`] | the offset below which all is to be deleted | the low watermark | what else decides a partition: d3 |
//! | [`DelayedFetch::watches`] | the progress found, and its share of what is missing | the [progress](fetch::OffsetPlace::with_progress) of the end that has moved | what else ends a wait: f2, f5, f6a, f7 |
//!
//! An event with a number is [`check_and_complete_up_to`](crate::Purgatory::check_and_complete_up_to), one to all
//! [`check_and_complete`](crate::Purgatory::check_and_complete). High watermarks, low watermarks and bytes are three scales,
//! so produce, deletions and fetches wait in purgatories of their own, or under different keys. A broker that does not know its ends' progress leaves it out, and fetches are asked at
//! every event.

mod bound;
pub mod delete_records;
pub mod elect_leader;
pub mod fetch;
pub mod future;
pub mod heartbeat;
pub mod join;
pub mod produce;
pub mod remote_fetch;
pub mod request;
pub mod share_fetch;
pub mod sync;
pub mod topics;

pub use delete_records::DelayedDeleteRecords;
pub use elect_leader::DelayedElectLeader;
pub use fetch::DelayedFetch;
pub use future::{DelayedFuture, DelayedRemoteListOffsets};
pub use heartbeat::DelayedHeartbeat;
pub use join::DelayedJoin;
pub use produce::DelayedProduce;
pub use remote_fetch::DelayedRemoteFetch;
pub use request::DelayedRequest;
pub use share_fetch::DelayedShareFetch;
pub use sync::DelayedSync;
pub use topics::{DelayedCreatePartitions, DelayedDeleteTopics};

use std::fmt;
use std::sync::Arc;

/// A broker shares its partitions, groups and topics, and cannot implement these traits for an `Arc` itself.
macro_rules! implement_for_arcs {
    ($($trait:path: $method:ident -> $output:ty;)*) => {
        $(impl<T: $trait + ?Sized> $trait for Arc<T> {
            fn $method(&self) -> $output {
                (**self).$method()
            }
        })*
    };
}

implement_for_arcs! {
    delete_records::DeletePartition: delete_standing -> delete_records::Standing;
    elect_leader::ElectedPartition: leader -> Option<i32>;
    future::JobPartition: error -> Option<ErrorCode>;
    heartbeat::SessionMember: is_gone -> bool;
    join::JoinGroup: join_standing -> join::Standing;
    produce::ProducePartition: standing -> produce::Standing;
    sync::SyncGroup: sync_standing -> sync::Standing;
    topics::TopicWork: outstanding -> usize;
}

/// An error code of Kafka's protocol.
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
///
/// assert!(ErrorCode::NONE.is_none());
/// assert_eq!(ErrorCode::REQUEST_TIMED_OUT.as_i16(), 7);
/// assert_eq!(ErrorCode::REQUEST_TIMED_OUT.to_string(), "REQUEST_TIMED_OUT");
/// assert_eq!(ErrorCode::new(1234).to_string(), "error 1234");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ErrorCode(i16);

impl ErrorCode {
    /// Makes a code of a number, known here or not.
    #[must_use]
    pub const fn new(code: i16) -> Self {
        ErrorCode(code)
    }

    /// Returns the number that goes over the wire.
    #[must_use]
    pub const fn as_i16(self) -> i16 {
        self.0
    }

    /// Whether this is success.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: ErrorCode = ErrorCode($code);)*

            fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    /// Success.
    NONE = 0;
    /// Something that no other code describes.
    UNKNOWN_SERVER_ERROR = -1;
    /// The offset is before the log's start or past its end.
    OFFSET_OUT_OF_RANGE = 1;
    /// The records do not match their checksum, or are no records.
    CORRUPT_MESSAGE = 2;
    /// This server does not host such a partition.
    UNKNOWN_TOPIC_OR_PARTITION = 3;
    /// No leader is elected.
    LEADER_NOT_AVAILABLE = 5;
    /// Another server leads the partition.
    NOT_LEADER_OR_FOLLOWER = 6;
    /// The request's time was up; what it asked for may still happen.
    REQUEST_TIMED_OUT = 7;
    /// The batch is larger than the server accepts.
    MESSAGE_TOO_LARGE = 10;
    /// The note beside a committed offset is too long.
    OFFSET_METADATA_TOO_LARGE = 12;
    /// The coordinator is not available.
    COORDINATOR_NOT_AVAILABLE = 15;
    /// Another server coordinates the group.
    NOT_COORDINATOR = 16;
    /// The topic's name is not legal.
    INVALID_TOPIC_EXCEPTION = 17;
    /// Too few replicas are in sync; nothing was appended.
    NOT_ENOUGH_REPLICAS = 19;
    /// The records were appended, but too few replicas were in sync by then.
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20;
    /// The acks are none of 0, 1 and -1.
    INVALID_REQUIRED_ACKS = 21;
    /// The group has gone on to another generation.
    ILLEGAL_GENERATION = 22;
    /// The members of the group have no protocol in common.
    INCONSISTENT_GROUP_PROTOCOL = 23;
    /// The group's id is not legal.
    INVALID_GROUP_ID = 24;
    /// The group has no such member, or not any more.
    UNKNOWN_MEMBER_ID = 25;
    /// The session timeout is not one that the server allows.
    INVALID_SESSION_TIMEOUT = 26;
    /// The group is rebalancing: join again.
    REBALANCE_IN_PROGRESS = 27;
    /// The version of the request is not served.
    UNSUPPORTED_VERSION = 35;
    /// The topic exists already.
    TOPIC_ALREADY_EXISTS = 36;
    /// The number of partitions is not legal.
    INVALID_PARTITIONS = 37;
    /// The replication factor is not legal.
    INVALID_REPLICATION_FACTOR = 38;
    /// The replica assignment is not legal.
    INVALID_REPLICA_ASSIGNMENT = 39;
    /// The configuration is not legal.
    INVALID_CONFIG = 40;
    /// The request makes no sense.
    INVALID_REQUEST = 42;
    /// The records are of a format that is not supported here.
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43;
    /// An idempotent producer's batch does not follow its last one.
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45;
    /// A newer producer has the same id.
    INVALID_PRODUCER_EPOCH = 47;
    /// The client may not use transactions.
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53;
    /// The log cannot be read or written.
    KAFKA_STORAGE_ERROR = 56;
    /// The server knows nothing of this producer id.
    UNKNOWN_PRODUCER_ID = 59;
    /// The request's leader epoch is older than the server's.
    FENCED_LEADER_EPOCH = 74;
    /// The request's leader epoch is newer than the server's.
    UNKNOWN_LEADER_EPOCH = 75;
    /// Join again, with the id that comes with this.
    MEMBER_ID_REQUIRED = 79;
    /// The group takes nobody else in.
    GROUP_MAX_SIZE_REACHED = 81;
    /// Another member has the same instance id.
    FENCED_INSTANCE_ID = 82;
    /// The record is not legal.
    INVALID_RECORD = 87;
    /// No topic has this id.
    UNKNOWN_TOPIC_ID = 100;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ErrorCode {}
