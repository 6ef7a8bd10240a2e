//! What a timer takes of memory: every byte that a peer asks the allocator for is counted, and every byte that it gives back.
//!
//! A program of its own, since the allocator that counts is the process's, and slower than the system's. The table goes to
//! the standard output, in Markdown.

#![allow(missing_docs, reason = "a program")]

use allocation_counter::{AllocationInfo, measure};
use ixion_bench::each_peer;
use ixion_bench::rivals::{Peer, Time};
use ixion_bench::support::{Delays, LONGEST, Table, figure, is_short, is_smoke};
use ixion_bench::workloads::Waiting;

fn main() {
    let sizes: &[usize] = match (is_smoke(), is_short()) {
        (true, _) => &[1000],
        (_, true) => &[100_000],
        _ => &[10_000, 100_000, 1_000_000],
    };
    println!("### Timers: memory\n");
    println!(
        "Bytes of heap for each timer, of which 8 are what it carries (tokio leaves those to the caller, with the \
         handle). *Steady*: all have been started. *Churn*: the most while four times as many are replaced and a \
         millisecond passes after every thousand. *Gone*: all have been stopped. *Later*: more than a minute after that. \
         *Itself*: what ixion's `heap_size` says when it is steady."
    );
    for n in sizes {
        println!("\n{n} timers:\n");
        let mut table = Table::new(["", "handle", "steady", "churn", "gone", "later", "itself"]);
        for row in each_peer!(row(*n)) {
            table.row(row);
        }
        print!("{table}");
    }
}

fn row<P: Peer>(n: usize) -> Vec<String> {
    let mut waiting = Waiting::<P>::empty(n, Delays::uniform(), Time::ByHand);
    let per_timer = |bytes: i64| figure(bytes as f64 / n as f64);
    let mut held = 0;
    let mut keep = |info: AllocationInfo| {
        let most = held + info.bytes_max as i64;
        held += info.bytes_current;
        (held, most)
    };
    let (steady, _) = keep(measure(|| waiting.fill()));
    let itself = waiting.peer.heap_size().map_or("–".to_owned(), |bytes| per_timer(bytes as i64));
    let (_, churn) = keep(measure(|| waiting.replace_in_time(4 * n as u64)));
    let (gone, _) = keep(measure(|| waiting.stop_all()));
    let (later, _) = keep(measure(|| waiting.peer.pass(LONGEST + P::SLACK + 1, 1, |_, _| ())));
    let bytes = [steady, churn, gone, later].map(per_timer);
    [P::NAME.to_owned(), size_of::<P::Id>().to_string()].into_iter().chain(bytes).chain([itself]).collect()
}
