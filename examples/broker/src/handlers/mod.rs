//! One function for each request that is served, and the choice between them.

mod commits;
mod configs;
mod fetch;
mod forward;
mod group;
mod metadata;
mod offsets;
mod produce;
mod records;
mod topics;

use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ixion::kafka::ErrorCode;
use ixion::{DelayedOperation, Outcome, Purgatory, Watch};
use kafka_protocol::messages::ApiKey;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::cluster::Cluster;
use crate::codec::{self, Frame, Request, Unanswerable};
use crate::partition::LEADER;

/// Who is asked.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) cluster: Arc<Cluster>,
    /// The node that is asked.
    pub(crate) node: i32,
    /// Where the leader is, if that is another process: it knows the topics.
    pub(crate) leader: Option<SocketAddr>,
}

impl Session {
    /// Whether the node leads the partitions: node 1 leads all of them, the others none.
    fn leads(&self) -> bool {
        self.node == LEADER
    }
}

/// Answers one frame: the bytes to send, or none for a request that is not to be answered.
///
/// # Errors
///
/// The connection is to be closed.
pub(crate) async fn answer(
    session: &Session,
    peer: &TcpStream,
    frame: Bytes,
) -> Result<Option<Bytes>, Unanswerable> {
    let mut request = match Frame::parse(frame.clone())? {
        Frame::Request(request) => request,
        Frame::UnknownApiVersions { correlation_id } => {
            let versions = codec::api_versions(ErrorCode::UNSUPPORTED_VERSION);
            return codec::encode(correlation_id, 0, &versions).map(|reply| Some(reply.freeze()));
        }
    };
    if let Some(leader) = session.leader
        && forward::is_forwarded(request.key)
    {
        return Box::pin(forward::answer(session, leader, peer, request, &frame)).await.map(Some);
    }
    drop(frame);
    // Those that may wait are boxed, so that an idle connection does not hold room for their state.
    let reply = match request.key {
        ApiKey::Produce => match Box::pin(produce::answer(session, peer, request)).await? {
            Some(reply) => reply,
            None => return Ok(None),
        },
        ApiKey::Fetch => return Box::pin(fetch::answer(session, peer, request)).await.map(Some),
        ApiKey::JoinGroup => Box::pin(group::join(session, peer, request)).await?,
        ApiKey::SyncGroup => Box::pin(group::sync(session, peer, request)).await?,
        ApiKey::CreateTopics => Box::pin(topics::create_topics(session, peer, request)).await?,
        ApiKey::CreatePartitions => Box::pin(topics::create_partitions(session, peer, request)).await?,
        ApiKey::DeleteTopics => Box::pin(topics::delete_topics(session, peer, request)).await?,
        ApiKey::DeleteRecords => Box::pin(records::delete_records(session, peer, request)).await?,
        _ => answer_at_once(session, &mut request)?,
    };
    Ok(Some(reply.freeze()))
}

fn answer_at_once(session: &Session, request: &mut Request) -> Result<BytesMut, Unanswerable> {
    let version = request.version;
    match request.key {
        ApiKey::ApiVersions => request.encode(&codec::api_versions(ErrorCode::NONE)),
        ApiKey::Metadata => {
            let asked = request.decode()?;
            request.encode(&metadata::metadata(session, &asked, version))
        }
        ApiKey::FindCoordinator => {
            let asked = request.decode()?;
            request.encode(&metadata::find_coordinator(session, &asked, version))
        }
        ApiKey::ListOffsets => {
            let asked = request.decode()?;
            request.encode(&offsets::list_offsets(session, &asked, version))
        }
        ApiKey::DescribeConfigs => {
            let asked = request.decode()?;
            request.encode(&configs::describe_configs(session, &asked, version))
        }
        ApiKey::InitProducerId => {
            let asked = request.decode()?;
            request.encode(&produce::init_producer_id(session, &asked))
        }
        ApiKey::Heartbeat => {
            let asked = request.decode()?;
            request.encode(&group::heartbeat(session, &asked))
        }
        ApiKey::LeaveGroup => {
            let asked = request.decode()?;
            request.encode(&group::leave(session, &asked, version))
        }
        ApiKey::OffsetCommit => {
            let asked = request.decode()?;
            request.encode(&commits::offset_commit(session, &asked))
        }
        ApiKey::OffsetFetch => {
            let asked = request.decode()?;
            request.encode(&commits::offset_fetch(session, &asked, version))
        }
        key => Err(Unanswerable::NotServed { key: key as i16, version }),
    }
}

/// Waits until the peer has closed its side. Never ends if it has sent more instead.
async fn gone(peer: &TcpStream) {
    if let Ok(1..) = peer.peek(&mut [0]).await {
        std::future::pending::<()>().await;
    }
}

/// Lets a request wait in a purgatory until it is answered, its time is up or its client has gone, who takes it out.
async fn park<K, O, A>(
    purgatory: &Purgatory<K, O>,
    peer: &TcpStream,
    operation: O,
    timeout: Duration,
    watches: impl IntoIterator<Item = Watch<K>>,
    answer: oneshot::Receiver<A>,
) -> Result<A, Unanswerable>
where
    K: Hash + Eq + 'static,
    O: DelayedOperation + 'static,
{
    let id = match purgatory.try_complete_else_watch_at(operation, timeout, watches) {
        Ok(registration) => registration.id(),
        Err(rejected) => {
            rejected.op.on_complete(Outcome::Shutdown);
            None
        }
    };
    tokio::select! {
        biased;
        // Every operation ends with its callback, so there is an answer.
        answer = answer => answer.map_err(|_| Unanswerable::Silent("a request that ended without an answer")),
        () = gone(peer) => {
            if let Some(id) = id {
                drop(purgatory.cancel(id));
            }
            Err(Unanswerable::Silent("the client has gone"))
        }
    }
}

/// The timeout of a request; less than nothing is nothing.
fn milliseconds(number: i32) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or(0))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
