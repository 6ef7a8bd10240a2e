//! How long single operations on a timer take: not the mean, but most, the slowest of a thousand, and the slowest of all.
//!
//! N timers wait. One is stopped, one is started, again and again, and every so often a millisecond passes. Each of these is
//! timed by itself; what reading the clock takes is measured first, and taken off. The peers take turns. The table goes
//! to the standard output, in Markdown.

#![allow(missing_docs, reason = "a program")]

use ixion_bench::each_peer;
use ixion_bench::rivals::{Peer, Time};
use ixion_bench::support::{Delays, Table, is_short, is_smoke, quantiles};
use ixion_bench::workloads::Waiting;
use std::time::Instant;

/// Pairs of a stop and a start between two milliseconds.
const PAIRS: usize = 50;
/// How often the peers take turns.
const ROUNDS: usize = 10;

/// What was measured of one peer, in nanoseconds.
#[derive(Default)]
struct Samples {
    start: Vec<u32>,
    stop: Vec<u32>,
    pass: Vec<u32>,
}

/// One of those that take turns.
struct Contestant {
    name: &'static str,
    round: Box<dyn FnMut(&mut Samples)>,
    samples: Samples,
}

fn main() {
    let sizes: &[usize] = match (is_smoke(), is_short()) {
        (true, _) => &[1000],
        (_, true) => &[100_000],
        _ => &[10_000, 100_000, 1_000_000],
    };
    let ticks = if is_smoke() { 2 } else { 400 };
    let overhead = overhead();
    println!("### Timers: how long one takes, and the slowest of many\n");
    println!(
        "Nanoseconds: the median / the 99th of a hundred / the 999th of a thousand / the slowest of {}. *Pass*: a \
         millisecond passes, and all that is due in it expires; one of {}. Each is timed by itself; reading the clock \
         takes {overhead} ns, which are taken off. The slowest ones have in them what the system does meanwhile.",
        ticks * PAIRS * ROUNDS,
        ticks * ROUNDS,
    );
    for n in sizes {
        println!("\n{n} timers:\n");
        print!("{}", table(*n, ticks, overhead));
    }
}

fn table(n: usize, ticks: usize, overhead: u32) -> Table {
    let mut contestants = each_peer!(contestant(n, ticks));
    for _ in 0..ROUNDS {
        contestants.iter_mut().for_each(|it| (it.round)(&mut it.samples));
    }
    let mut table = Table::new(["", "start", "stop", "pass"]);
    for Contestant { name, samples: Samples { start, stop, pass }, .. } in contestants {
        let cells = [start, stop, pass].map(|samples| cell(samples, overhead));
        table.row([name.to_owned()].into_iter().chain(cells));
    }
    table
}

fn contestant<P: Peer + 'static>(n: usize, ticks: usize) -> Contestant {
    let mut waiting = Waiting::<P>::new(n, Delays::uniform(), Time::ByHand);
    // The first round's cold misses are nobody's daily life.
    waiting.replace(n as u64);
    let round = move |samples: &mut Samples| {
        for _ in 0..ticks {
            let guard = waiting.peer.enter();
            for _ in 0..PAIRS {
                let j = waiting.pick();
                samples.stop.push(time(|| waiting.stop(j)));
                samples.start.push(time(|| waiting.start(j)));
            }
            drop(guard);
            samples.pass.push(time(|| waiting.pass()));
            waiting.renew();
        }
    };
    Contestant { name: P::NAME, round: Box::new(round), samples: Samples::default() }
}

#[inline]
fn time(work: impl FnOnce()) -> u32 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos().try_into().unwrap_or(u32::MAX)
}

/// What is measured of nothing.
fn overhead() -> u32 {
    let mut samples: Vec<u32> = (0..10_000).map(|_| time(|| ())).collect();
    let [median] = quantiles(&mut samples, [0.5]);
    median
}

fn cell(mut samples: Vec<u32>, overhead: u32) -> String {
    quantiles(&mut samples, [0.5, 0.99, 0.999, 1.0])
        .map(|nanoseconds| nanoseconds.saturating_sub(overhead).to_string())
        .join(" / ")
}
