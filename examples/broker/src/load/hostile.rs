//! Clients that mean harm, or are broken, beside one that behaves: they send junk, or half of a request, or byte by byte; they
//! announce what they do not send, or ask for much and do not read it. Each must be cut off, what they make the broker keep
//! has a limit, and the one that behaves must not notice much.

mod client;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;

use self::client::Kind;
use super::process::{Served, need_files};
use super::table::Table;
use crate::demo::Verdict;
use crate::demo::client::{Client, Target};

/// What those who do not read ask for, and what the one that behaves uses.
const BULK: Target = Target { topic: "bulk", partition: 0 };
const SMALL: Target = Target { topic: "small", partition: 0 };
const BULK_BATCHES: usize = 64;
const BULK_BATCH_BYTES: usize = 512 << 10;

/// How long the broker lets a request come and a reply go.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(2);
/// What all requests and replies together may take.
const BUFFER_BYTES: u64 = 64 << 20;
/// What a connection may take besides: what is free of a request or a reply, and all else.
const FREE_BYTES: u64 = 128 << 10;
/// What the allocator may keep of what was freed.
const SLACK_BYTES: u64 = 64 << 20;
/// How long the one that behaves is alone, and beside the others.
const ALONE: Duration = Duration::from_secs(2);
const BESIDE: Duration = Duration::from_secs(5);
/// How long between its requests.
const PACE: Duration = Duration::from_millis(5);

/// How many of each kind there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
}

impl Shape {
    fn clients(self) -> usize {
        self.connections * Kind::ALL.len()
    }

    /// The most that the broker may grow by.
    fn memory_limit(self) -> u64 {
        // A reply has at least one batch, which is there twice while it is encoded.
        let batches = self.connections as u64 * 2 * BULK_BATCH_BYTES as u64;
        BUFFER_BYTES + self.clients() as u64 * FREE_BYTES + batches + SLACK_BYTES
    }
}

/// What was measured.
struct Figures {
    /// Of each kind: how long it took until the broker had closed the connection.
    closed: Vec<(Kind, Vec<Duration>)>,
    /// How long it took to answer the one that behaves, alone and beside the others.
    alone: Vec<Duration>,
    beside: Vec<Duration>,
    /// Bytes that were resident before, and at most.
    memory: (u64, u64),
}

/// Starts a broker and lets all of them at it.
///
/// # Errors
///
/// Says what was wrong: a connection that was not closed, too much memory, one that behaves and was not served.
pub(super) async fn run(shape: Shape) -> Verdict {
    need_files(shape.clients())?;
    let served = Served::start(&format!(
        "--replicas 1 --transfer-timeout-ms {} --buffer-total-bytes {BUFFER_BYTES} --max-request-bytes {}",
        TRANSFER_TIMEOUT.as_millis(),
        BUFFER_BYTES / 2
    ))?;
    let mut honest = served.connect().await?;
    fill(&mut honest).await.map_err(|error| format!("writing what is to be read: {error}"))?;
    drop(honest);
    let alone = behave(served.address, ALONE).await?;
    let before = served.resident_at_rest().await?;

    let mut hostile = JoinSet::new();
    for kind in Kind::ALL {
        for number in 0..shape.connections {
            let address = served.address;
            // Not all in the same moment, or it is the machine that is tried and not the broker.
            let pause = BESIDE / 5 * number as u32 / shape.connections as u32;
            hostile.spawn(async move {
                tokio::time::sleep(pause).await;
                (kind, kind.harm(address, number, BESIDE - pause).await)
            });
        }
    }
    let (beside, most) = tokio::try_join!(behave(served.address, BESIDE), watch_memory(&served))?;
    let mut closed: Vec<(Kind, Vec<Duration>)> = Kind::ALL.map(|kind| (kind, Vec::new())).into();
    while let Some(ended) = hostile.join_next().await {
        let (kind, times) = ended.map_err(|error| format!("a hostile client failed: {error}"))?;
        let times = times.map_err(|wrong| format!("{}: {wrong}", kind.name()))?;
        closed.iter_mut().filter(|(of, _)| *of == kind).for_each(|(_, all)| all.extend(&times));
    }
    served.reach(|left| left.connections == 0, "the connections of all others are closed").await?;
    let figures = Figures { closed, alone, beside, memory: (before, most) };
    let verdict = check(shape, &figures);
    super::say(&table(shape, figures))?;
    verdict
}

/// Writes what is to be read.
async fn fill(client: &mut Client) -> std::io::Result<()> {
    client.create(BULK.topic, 1, 1).await?;
    client.create(SMALL.topic, 1, 1).await?;
    let value = [Bytes::from(vec![b'x'; BULK_BATCH_BYTES])];
    for _ in 0..BULK_BATCHES {
        client.produce(BULK, &value, 1, 10_000).await?;
    }
    Ok(())
}

/// Writes records and reads them for a while, on a thread of its own: what the others do here is not what is measured. Returns
/// how long each took.
async fn behave(address: SocketAddr, time: Duration) -> Result<Vec<Duration>, String> {
    let behaves = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("starting a runtime: {error}"))?;
        runtime.block_on(write_and_read(address, time))
    });
    behaves.await.map_err(|error| format!("who behaves failed: {error}"))?
}

async fn write_and_read(address: SocketAddr, time: Duration) -> Result<Vec<Duration>, String> {
    let broken = |error: std::io::Error| error.to_string();
    let mut client = Client::connect(address).await.map_err(broken)?;
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        let asked = Instant::now();
        let value = [Bytes::from(times.len().to_string())];
        let (error, offset) = client.produce(SMALL, &value, 1, 10_000).await.map_err(broken)?;
        let read = client.fetch(SMALL, offset, 10_000, 1).await.map_err(broken)?;
        times.push(asked.elapsed());
        let [own] = value;
        if error != 0 || read.records != [(offset, own)] {
            return Err(format!("who behaves was answered with error {error} and {read:?}"));
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(times)
}

/// The most that is resident meanwhile.
async fn watch_memory(served: &Served) -> Result<u64, String> {
    let (begun, mut most) = (Instant::now(), 0);
    while begun.elapsed() < BESIDE {
        most = most.max(served.resident()?);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(most)
}

fn check(shape: Shape, figures: &Figures) -> Verdict {
    let (before, most) = figures.memory;
    let (grown, limit) = (most.saturating_sub(before), shape.memory_limit());
    if grown > limit {
        return Err(format!("the broker has grown by {grown} bytes, where {limit} are the limit"));
    }
    if let Some((kind, _)) = figures.closed.iter().find(|(_, times)| times.is_empty()) {
        return Err(format!("no connection was closed of those who {}", kind.name()));
    }
    // Nobody waits behind those who are put up with until their time is up.
    match figures.beside.iter().max() {
        Some(longest) if *longest < TRANSFER_TIMEOUT => Ok(()),
        longest => Err(format!("who behaves had to wait for {longest:?}")),
    }
}

fn table(shape: Shape, figures: Figures) -> String {
    let limit = TRANSFER_TIMEOUT.as_secs_f64();
    let mut table = Table::new(format!(
        "{} hostile clients at once, beside one that behaves; transfers may take {limit} s",
        shape.clients()
    ));
    table.gap();
    let mut rows: Vec<(&str, Vec<Duration>)> = vec![
        ("who behaves: a record written and read, alone", figures.alone),
        ("  and beside the others", figures.beside),
    ];
    table.times(&mut rows);
    table.gap();
    table.text("milliseconds until the connection is closed of who");
    let mut rows: Vec<(&str, Vec<Duration>)> =
        figures.closed.into_iter().map(|(kind, times)| (kind.name(), times)).collect();
    table.percentiles(&mut rows);
    table.gap();
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1_048_576.0);
    let (before, most) = figures.memory;
    table.line("memory of the broker before", mebibytes(before), "MiB");
    table.line("  at most", mebibytes(most), "MiB");
    table.line("  where the limit is", mebibytes(before + shape.memory_limit()), "MiB");
    table.gap();
    table.text("every answer to who behaves was right, and all others were cut off");
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let times = |kind| (kind, vec![Duration::from_micros(4560)]);
        Figures {
            closed: Kind::ALL.map(times).into(),
            alone: vec![Duration::from_micros(120)],
            beside: vec![Duration::from_micros(340)],
            memory: (10 << 20, 20 << 20),
        }
    }

    #[test]
    fn the_table_has_every_figure_and_lines_up() {
        let table = table(Shape { connections: 10 }, figures());
        for expected in ["0.12", "0.34", "4.56", "10.0 MiB", "20.0 MiB"] {
            assert!(table.contains(expected), "{expected} in\n{table}");
        }
        for kind in Kind::ALL {
            assert!(table.contains(kind.name()), "{} in\n{table}", kind.name());
        }
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn too_much_memory_or_patience_is_seen() {
        let shape = Shape { connections: 1 };
        check(shape, &figures()).expect("all is well");
        let grown = (10 << 20) + shape.memory_limit() + 1;
        check(shape, &Figures { memory: (10 << 20, grown), ..figures() }).expect_err("too large");
        check(shape, &Figures { beside: vec![TRANSFER_TIMEOUT], ..figures() }).expect_err("too slow");
        check(shape, &Figures { beside: Vec::new(), ..figures() }).expect_err("nothing was asked");
        let kept = Figures { closed: vec![(Kind::Half, Vec::new())], ..figures() };
        check(shape, &kept).expect_err("nothing was closed");
    }
}
