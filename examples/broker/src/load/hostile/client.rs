//! One hostile client, which tries again and again.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::ApiKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpSocket, TcpStream};

use super::super::process::PATIENCE;
use super::{BULK, TRANSFER_TIMEOUT};
use crate::demo::client;

/// How long between tries, so that it is the broker that is tried and not the machine.
const PAUSE: Duration = Duration::from_millis(50);
/// What those announce who do not send it.
const ANNOUNCED: i32 = 8 << 20;
/// How long those who send byte by byte take for one.
const PER_BYTE: Duration = Duration::from_millis(20);
/// Replies that nobody reads, as large as the broker makes them: more than the system itself keeps for a connection, even if
/// each is but one batch.
const UNREAD_REPLIES: usize = 64;
const LARGEST_REPLY: i32 = 64 << 20;

/// What is wrong with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Junk,
    Unknown,
    Huge,
    Half,
    SlowToSend,
    DoesNotRead,
}

impl Kind {
    pub(super) const ALL: [Kind; 6] =
        [Kind::Junk, Kind::Unknown, Kind::Huge, Kind::Half, Kind::SlowToSend, Kind::DoesNotRead];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Junk => "sends junk",
            Kind::Unknown => "asks for what is not served",
            Kind::Huge => "announces more than is allowed",
            Kind::Half => "sends half of a request",
            Kind::SlowToSend => "sends byte by byte",
            Kind::DoesNotRead => "does not read",
        }
    }

    /// Whether it is only with time that it shows what it is.
    fn is_slow(self) -> bool {
        matches!(self, Kind::Half | Kind::SlowToSend | Kind::DoesNotRead)
    }

    /// Does harm for a while. Returns how long each connection lasted.
    pub(super) async fn harm(
        self,
        address: SocketAddr,
        number: usize,
        time: Duration,
    ) -> Result<Vec<Duration>, String> {
        let begun = Instant::now();
        let mut lasted = Vec::new();
        let mut junk = Junk(number as u64 + 1);
        while begun.elapsed() + if self.is_slow() { TRANSFER_TIMEOUT } else { PAUSE } < time {
            let took = self.try_once(address, &mut junk).await?;
            if self.is_slow() && took < TRANSFER_TIMEOUT {
                return Err(format!("closed early: after {took:?}"));
            }
            lasted.push(took);
            tokio::time::sleep(PAUSE).await;
        }
        Ok(lasted)
    }

    /// Connects, does its worst and waits until the broker has closed the connection.
    async fn try_once(self, address: SocketAddr, junk: &mut Junk) -> Result<Duration, String> {
        let mut stream = self.connect(address).await.map_err(|error| format!("connecting: {error}"))?;
        let begun = Instant::now();
        let harm = async {
            // The broker may close the connection while this is being sent.
            let _ = self.send(&mut stream, junk).await;
            if self == Kind::DoesNotRead {
                // To read would be to let it go on. The broker has not read all that was sent, so the end of the
                // connection is an error.
                let _ = stream.ready(Interest::ERROR).await;
            } else {
                let mut rest = [0; 4096];
                while let Ok(1..) = stream.read(&mut rest).await {}
            }
        };
        tokio::time::timeout(PATIENCE, harm).await.map_err(|_| format!("open after {PATIENCE:?}"))?;
        Ok(begun.elapsed())
    }

    async fn connect(self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        if self == Kind::DoesNotRead {
            // What is not read is kept by the broker, not by the system for this end.
            socket.set_recv_buffer_size(4096)?;
        }
        socket.connect(address).await
    }

    async fn send(self, stream: &mut TcpStream, junk: &mut Junk) -> io::Result<()> {
        let announced = ANNOUNCED.to_be_bytes();
        match self {
            Kind::Junk => stream.write_all(&junk.frame()).await,
            Kind::Unknown => {
                let key = if junk.next().is_multiple_of(2) { 999 } else { ApiKey::Fetch as i16 };
                let mut frame = BytesMut::new();
                frame.put_i32(10);
                frame.put_i16(key);
                frame.put_i16(99);
                frame.put_slice(&[0, 0, 0, 1, 0xff, 0xff]);
                stream.write_all(&frame).await
            }
            Kind::Huge => {
                let length = if junk.next().is_multiple_of(2) { i32::MAX } else { -1 };
                stream.write_all(&length.to_be_bytes()).await
            }
            Kind::Half => {
                stream.write_all(&announced).await?;
                stream.write_all(&vec![0; ANNOUNCED as usize / 2]).await
            }
            Kind::SlowToSend => {
                stream.write_all(&announced).await?;
                loop {
                    stream.write_all(&[0]).await?;
                    tokio::time::sleep(PER_BYTE).await;
                }
            }
            Kind::DoesNotRead => {
                let request = client::fetch_frame(BULK, 0, 0, LARGEST_REPLY)?;
                stream.write_all(&request.repeat(UNREAD_REPLIES)).await
            }
        }
    }
}

/// The same junk in every run.
struct Junk(u64);

impl Junk {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// A frame of the length that it says, of a request that is known, with junk for all else.
    fn frame(&mut self) -> Vec<u8> {
        let length = 12 + self.next() as usize % 300;
        let mut frame = (length as u32).to_be_bytes().to_vec();
        frame.extend([0, self.next() as u8 % 38, 0, self.next() as u8 % 4]);
        // A name of a client that is longer than the frame.
        frame.extend([0, 0, 0, 1, 0x7f, 0xff]);
        frame.resize_with(4 + length, || self.next() as u8);
        frame
    }
}
