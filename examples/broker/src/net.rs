//! Sockets: listening, one task for each connection, one request at a time.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::buffers::{self, Buffers, FREE_BYTES, Share};
use crate::cluster::Cluster;
use crate::handlers::{Session, answer};
use crate::idle::ConnectionTimer;

/// Connections that may wait to be accepted: ten thousand clients may come at once.
const BACKLOG: u32 = 4096;
/// The largest reply that a node reads of another: a fetch's bytes, or one batch, and what is around them.
pub(crate) const MAX_REPLY_BYTES: usize = 128 << 20;
/// How long to wait when no connection can be accepted, for want of file descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Listens on an address.
///
/// # Errors
///
/// Fails if the address cannot be bound.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections and serves each in a task of its own, until `closing` is set and all have ended. One that comes when
/// there are `most` is closed at once.
pub(crate) async fn accept<F, T>(
    listener: TcpListener,
    most: usize,
    mut closing: watch::Receiver<bool>,
    serve: F,
) where
    F: Fn(TcpStream) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < most => {
                    connections.spawn(serve(stream));
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = becomes(&mut closing, true) => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Serves one client: reads a request, answers it, and only then reads the next.
///
/// Whoever is slow to send a request or to take a reply is cut off, since both are kept here meanwhile.
pub(crate) async fn serve(mut stream: TcpStream, session: Session, mut closing: watch::Receiver<bool>) {
    let cluster = &*session.cluster;
    let _open = Open::new(cluster);
    let mut timer = ConnectionTimer::new(cluster);
    if stream.set_nodelay(true).is_err() {
        return;
    }
    loop {
        timer.restart(cluster.config.connections_max_idle);
        let begun = tokio::select! {
            biased;
            begun = begin_frame(&mut stream) => begun,
            _ = becomes(&mut closing, true) => return,
            () = timer.expired() => return,
        };
        // Whatever cannot be read or answered closes the connection, as it does in Kafka.
        let Ok(Some(begun)) = begun else { return };
        let frame =
            finish_frame(&mut stream, begun, cluster.config.max_request_bytes, Some(&cluster.buffers));
        let frame = tokio::select! {
            biased;
            frame = timer.limit(cluster.config.transfer_timeout, frame) => frame,
            _ = becomes(&mut closing, true) => return,
        };
        let Some(Ok(frame)) = frame else { return };
        cluster.counters.requests.fetch_add(1, Ordering::Relaxed);
        match answer(&session, &stream, frame).await {
            Ok(None) => {}
            Ok(Some(reply)) => {
                let taken = timer.limit(cluster.config.transfer_timeout, stream.write_all(&reply)).await;
                if !matches!(taken, Some(Ok(()))) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Waits until a flag has a value, or can never have it because its owner has gone.
pub(crate) async fn becomes(flag: &mut watch::Receiver<bool>, value: bool) {
    // The borrow must not live on in the caller's task.
    drop(flag.wait_for(|current| *current == value).await);
}

/// Reads a frame without its length; `None` at the end of the stream.
///
/// # Errors
///
/// A length that is negative or above `max_bytes`, an end in the middle of a frame, or whatever the socket reports.
pub(crate) async fn read_frame<S>(stream: &mut S, max_bytes: usize) -> io::Result<Option<Bytes>>
where
    S: AsyncRead + Unpin,
{
    match begin_frame(stream).await? {
        None => Ok(None),
        Some(begun) => finish_frame(stream, begun, max_bytes, None).await.map(Some),
    }
}

/// The first bytes of a frame, at least one: as much of its length as has come.
type Begun = ([u8; 4], usize);

/// Waits for a frame to begin; `None` at the end of the stream.
async fn begin_frame<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Option<Begun>> {
    let mut length = [0; 4];
    let read = stream.read(&mut length).await?;
    Ok((read > 0).then_some((length, read)))
}

/// Reads the rest of a frame. What it takes beyond [`FREE_BYTES`] is a part of the `buffers`, until the frame is dropped.
async fn finish_frame<S: AsyncRead + Unpin>(
    stream: &mut S,
    (mut length, read): Begun,
    max_bytes: usize,
    buffers: Option<&Buffers>,
) -> io::Result<Bytes> {
    stream.read_exact(&mut length[read..]).await?;
    let length = usize::try_from(i32::from_be_bytes(length)).ok().filter(|&length| length <= max_bytes);
    let Some(length) = length else { return Err(io::ErrorKind::InvalidData.into()) };
    let mut frame = BytesMut::with_capacity(length.min(FREE_BYTES));
    let mut share = Share::default();
    let mut rest = stream.take(length as u64);
    while frame.len() < length {
        if frame.capacity() == frame.len() {
            let more = (length - frame.len()).min(frame.len().max(1));
            if let Some(buffers) = buffers {
                buffers.wait_for(more, &mut share).await;
            }
            frame.reserve(more);
        }
        if rest.read_buf(&mut frame).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(buffers::with_share(frame, share))
}

/// Counts a connection while it is open.
struct Open<'a>(&'a Cluster);

impl<'a> Open<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        cluster.counters.connections.fetch_add(1, Ordering::Relaxed);
        Open(cluster)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
