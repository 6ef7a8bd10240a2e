//! How long single calls take.

use ixion_bench::rivals::home_made::HomeMade;
use ixion_bench::rivals::purgatories::{Condition, Place, Plain, Request};
use ixion_bench::support::{Random, Table, count, pick, quantiles};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(3600);

pub(crate) fn run() {
    let mut table = Table::new(["call", "waiting", "place", "p50 ns", "p99", "p99.9", "most us"]);
    for waiting in pick(&[1_000][..], &[10_000], &[10_000, 1_000_000]) {
        in_a_place::<Plain>(&mut table, *waiting, Some(|place, id| place.0.reset_timeout(*id, TIMEOUT)));
        in_a_place::<HomeMade<Request>>(&mut table, *waiting, None);
    }
    println!("\n### Single calls, operations on three keys of their own number\n\n{table}");
}

/// One that waits: by what it can be completed, and by what it can be named.
struct Waits<P: Place> {
    condition: Arc<Condition>,
    key: u64,
    id: P::Id,
}

fn in_a_place<P: Place>(table: &mut Table, waiting: usize, reset: Option<fn(&P, &P::Id) -> bool>) {
    let (place, mut random) = (Arc::new(P::new()), Random::new(13));
    let driver = place.drive();
    let mut next_key = 0;
    let mut register = |times: &mut Vec<u64>| {
        next_key += 3;
        let (condition, request) = Request::new(0);
        let keys = [0, 1, 2].map(|n| (next_key + n, 0));
        let id = timed(times, || place.register(request, TIMEOUT, keys)).expect("it waits");
        Waits::<P> { condition, key: next_key, id }
    };
    let mut unused = Vec::new();
    let mut all: Vec<Waits<P>> = (0..waiting).map(|_| register(&mut unused)).collect();
    let calls = pick(1_000, 50_000, 200_000);
    let mut times: [Vec<u64>; 4] = Default::default();
    let [registering, checking, cancelling, resetting] = &mut times;
    for call in 0..calls {
        let at = random.below(waiting);
        let other = register(registering);
        let one = std::mem::replace(&mut all[at], other);
        if call % 2 == 0 {
            one.condition.ready.store(true, Ordering::Release);
            assert_eq!(timed(checking, || place.check((one.key, 0))), 1);
        } else {
            assert!(timed(cancelling, || place.cancel(one.id)).is_some());
        }
        if let Some(reset) = reset {
            let id = &all[random.below(waiting)].id;
            assert!(timed(resetting, || reset(&place, id)));
        }
    }
    for (name, mut times) in ["register", "check and complete", "cancel", "reset"].iter().zip(times) {
        if times.is_empty() {
            continue;
        }
        let [p50, p99, p999, most] = quantiles(&mut times, [0.5, 0.99, 0.999, 1.0]);
        let [p50, p99, p999] = [p50, p99, p999].map(|it| it.to_string());
        let most = format!("{:.0}", most as f64 / 1e3);
        table.row([(*name).to_owned(), count(waiting as f64), P::NAME.to_owned(), p50, p99, p999, most]);
    }
    drop(driver);
    let waits = place.count(3);
    assert_eq!(waits, waiting);
    let taken = all.into_iter().filter_map(|one| place.cancel(one.id)).count();
    assert_eq!((taken, place.count(3)), (waiting, 0), "nothing is kept");
}

#[inline]
fn timed<R>(times: &mut Vec<u64>, call: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = call();
    times.push(start.elapsed().as_nanos() as u64);
    result
}
