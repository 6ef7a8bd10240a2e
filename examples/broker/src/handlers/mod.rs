//! One function for each request that is served, and the choice between them.

mod commits;
mod fetch;
mod group;
mod metadata;
mod offsets;
mod produce;
mod topics;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ixion::kafka::ErrorCode;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::StrBytes;
use tokio::net::TcpStream;

use crate::cluster::Cluster;
use crate::codec::{self, Frame, Request, Unanswerable};
use crate::partition::LEADER;

/// Who is asked, and by whom.
pub(crate) struct Session {
    pub(crate) cluster: Arc<Cluster>,
    /// The node that is asked.
    pub(crate) node: i32,
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
) -> Result<Option<BytesMut>, Unanswerable> {
    let mut request = match Frame::parse(frame)? {
        Frame::Request(request) => request,
        Frame::UnknownApiVersions { correlation_id } => {
            let versions = codec::api_versions(ErrorCode::UNSUPPORTED_VERSION);
            return codec::encode(correlation_id, 0, &versions).map(Some);
        }
    };
    match request.key {
        // Those that may wait. Boxed, so that an idle connection does not hold room for their state.
        ApiKey::Produce => Box::pin(produce::answer(session, request)).await,
        ApiKey::Fetch => Box::pin(fetch::answer(session, peer, request)).await.map(Some),
        ApiKey::JoinGroup => Box::pin(group::join(session, peer, request)).await.map(Some),
        ApiKey::SyncGroup => Box::pin(group::sync(session, peer, request)).await.map(Some),
        _ => answer_at_once(session, &mut request).map(Some),
    }
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
        ApiKey::CreateTopics => {
            let asked = request.decode()?;
            request.encode(&topics::create_topics(session, &asked, version))
        }
        ApiKey::DeleteTopics => {
            let asked = request.decode()?;
            request.encode(&topics::delete_topics(session, &asked, version))
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

/// A copy of a text, so that what stays behind of a request does not keep its frame.
fn own(text: &StrBytes) -> StrBytes {
    StrBytes::from_string(text.as_str().to_owned())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
