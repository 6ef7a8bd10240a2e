//! A follower in a process of its own lets its leader answer what only the leader knows.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::codec::{Request, Unanswerable};
use crate::handlers::{Session, gone, milliseconds};
use crate::idle::ConnectionTimer;
use crate::net::{MAX_REPLY_BYTES, read_frame};

/// Whether only the leader knows the answer, but any node may be asked. To what only the leader may be asked a follower
/// answers that it is none.
pub(super) fn is_forwarded(key: ApiKey) -> bool {
    use ApiKey::*;
    matches!(
        key,
        Metadata
            | FindCoordinator
            | InitProducerId
            | CreateTopics
            | CreatePartitions
            | DeleteTopics
            | DescribeConfigs
    )
}

/// Lets the leader answer. It has as long as the request allows it, and as a transfer may take on top of that.
pub(super) async fn answer(
    session: &Session,
    leader: SocketAddr,
    peer: &TcpStream,
    request: Request,
    frame: &[u8],
) -> Result<Bytes, Unanswerable> {
    let limit = session.cluster.config.transfer_timeout + timeout_of(request)?;
    let exchange = async {
        let mut stream = TcpStream::connect(leader).await?;
        stream.write_all(&(frame.len() as i32).to_be_bytes()).await?;
        stream.write_all(frame).await?;
        read_frame(&mut stream, MAX_REPLY_BYTES).await
    };
    let mut timer = ConnectionTimer::new(&session.cluster);
    let reply = tokio::select! {
        reply = timer.limit(limit, exchange) => reply,
        () = gone(peer) => return Err(Unanswerable::Silent("the client has gone")),
    };
    let Some(Ok(Some(reply))) = reply else {
        return Err(Unanswerable::Silent("the leader does not answer"));
    };
    let mut framed = BytesMut::with_capacity(4 + reply.len());
    framed.put_i32(reply.len() as i32);
    framed.put_slice(&reply);
    Ok(framed.freeze())
}

/// How long the request may wait at the leader.
fn timeout_of(mut request: Request) -> Result<Duration, Unanswerable> {
    let timeout_ms = match request.key {
        ApiKey::CreateTopics => request.decode::<CreateTopicsRequest>()?.timeout_ms,
        ApiKey::CreatePartitions => request.decode::<CreatePartitionsRequest>()?.timeout_ms,
        ApiKey::DeleteTopics => request.decode::<DeleteTopicsRequest>()?.timeout_ms,
        _ => 0,
    };
    Ok(milliseconds(timeout_ms))
}
