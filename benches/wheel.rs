//! The wheel against what else could keep timers, see `rivals`.
//!
//! * `wheel/churn`: N timers wait; one is stopped and another started. The life of a server's timeouts.
//! * `wheel/expire`: N timers are started, and the clock goes on by a tick at a time until all have expired.
//! * `wheel/burst`: N timers are started in a wheel that is empty, and had them before.
//! * `wheel/restart`: N timers wait; one is moved to another deadline.
//!
//! A time is that of one timer for churn and restart, and of N for the other two (see the throughput). `layout-lazy`
//! and `layout-linked` are other layouts of the same wheel, see `support`. What expired, and when, is asserted. For rows
//! to compare, taken in turns, see `ratios`.

#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ixion_bench::each_peer;
use ixion_bench::rivals::layouts::{Lazy, Linked};
use ixion_bench::rivals::{Peer, Time};
use ixion_bench::support::{Delays, group, is_smoke, sizes};
use ixion_bench::workloads::{Cycle, Waiting};

/// A benchmark's name has no blanks.
fn id<P: Peer>(operation: &str, size: &str) -> BenchmarkId {
    let implementation = match P::NAME {
        "DelayQueue" => "delay-queue".to_owned(),
        name => name.replace(" + ", "-").replace(' ', "-"),
    };
    BenchmarkId::new(format!("{operation}/{size}"), implementation)
}

fn churn<P: Peer>(criterion: &mut Criterion) {
    for &(n, size) in sizes() {
        let mut waiting = Waiting::<P>::new(n, Delays::uniform(), Time::Real);
        // Until whatever is done now and then has been done.
        waiting.replace(n.max(if is_smoke() { 0 } else { 500_000 }) as u64);
        let guard = waiting.peer.enter();
        let mut group = group(criterion, "wheel");
        group.bench_function(id::<P>("churn", size), |bencher| bencher.iter(|| waiting.replace_one()));
        drop(guard);
        if let Some(bytes) = waiting.peer.heap_size() {
            eprintln!("{}/{size}: {:.1} bytes a timer after the churn", P::NAME, bytes as f64 / n as f64);
        }
        waiting.stop_all();
    }
}

fn restart<P: Peer>(criterion: &mut Criterion) {
    for &(n, size) in sizes() {
        let mut waiting = Waiting::<P>::new(n, Delays::uniform(), Time::Real);
        let guard = waiting.peer.enter();
        let mut group = group(criterion, "wheel");
        group.bench_function(id::<P>("restart", size), |bencher| bencher.iter(|| waiting.restart_one()));
        drop(guard);
        waiting.stop_all();
    }
}

fn burst<P: Peer>(criterion: &mut Criterion) {
    for &(n, size) in sizes() {
        let mut cycle = Cycle::<P>::new(n, Delays::uniform(), Time::Real);
        let mut group = group(criterion, "wheel");
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(id::<P>("burst", size), |bencher| {
            bencher.iter_custom(|iterations| (0..iterations).map(|_| cycle.burst()).sum());
        });
    }
}

fn expire<P: Peer>(criterion: &mut Criterion) {
    for &(n, size) in sizes() {
        let mut cycle = Cycle::<P>::new(n, Delays::uniform(), Time::ByHand);
        let mut group = group(criterion, "wheel");
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(id::<P>("expire", size), |bencher| bencher.iter(|| cycle.expire(1)));
    }
}

fn benches(criterion: &mut Criterion) {
    each_peer!(churn(criterion));
    churn::<Lazy>(criterion);
    churn::<Linked>(criterion);
    each_peer!(restart(criterion));
    restart::<Lazy>(criterion);
    restart::<Linked>(criterion);
    each_peer!(burst(criterion));
    burst::<Lazy>(criterion);
    burst::<Linked>(criterion);
    // Last: a clock of tokio's that was paused once makes reading it dearer in the whole process.
    each_peer!(expire(criterion));
    expire::<Lazy>(criterion);
    expire::<Linked>(criterion);
}

criterion_group!(wheel, benches);
criterion_main!(wheel);
