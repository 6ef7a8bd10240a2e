//! Any steps of a queue, with any store, beside a list that is gone through from end to end.

use crate::queue::{Bench, s};
use ixion_retry::{Backoff, ItemId, Store};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Push(u64),
    Take { n: usize, visibility: u64 },
    Ack(usize),
    Nack(usize),
    NackAfter(usize, u64),
    Extend(usize, u64),
    Redrive,
    Purge,
    Pass(u64),
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4u64).prop_map(Step::Push),
        4 => (0..4usize, 0..4u64).prop_map(|(n, visibility)| Step::Take { n, visibility }),
        2 => any::<usize>().prop_map(Step::Ack),
        2 => any::<usize>().prop_map(Step::Nack),
        1 => (any::<usize>(), 0..4u64).prop_map(|(n, delay)| Step::NackAfter(n, delay)),
        1 => (any::<usize>(), 0..4u64).prop_map(|(n, span)| Step::Extend(n, span)),
        1 => Just(Step::Redrive),
        1 => Just(Step::Purge),
        2 => (1..6u64).prop_map(Step::Pass),
    ]
}

/// The same queue as a list, which is gone through from end to end.
struct Listed {
    id: ItemId,
    attempt: u32,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Waits(u64),
    Leased { until: u64, receipt: usize },
    Dead,
}

const MAX_IN_FLIGHT: usize = 3;
const ATTEMPTS: u32 = 3;
const DELAY: u64 = 2;

fn fail(item: &mut Listed, now: u64, delay: u64) {
    item.what = if item.attempt >= ATTEMPTS { What::Dead } else { What::Waits(now + delay) };
}

pub(crate) fn any_steps_agree_with_a_list<S: Store>(store: S, steps: Vec<Step>) {
    let bench = Bench::new(store, Backoff::fixed(s(DELAY)).max_attempts(ATTEMPTS), MAX_IN_FLIGHT);
    let mut list: Vec<Listed> = Vec::new();
    let mut receipts = Vec::new();
    let mut now = 0;
    for step in steps {
        let pick = |n: usize| if receipts.is_empty() { None } else { Some(n % receipts.len()) };
        let held = |list: &[Listed], n: usize| {
            list.iter().position(
                |item| matches!(item.what, What::Leased { until, receipt } if receipt == n && until > now),
            )
        };
        match step {
            Step::Push(delay) => {
                let id = bench.push("x", delay);
                list.push(Listed { id, attempt: 0, what: What::Waits(now + delay) });
            }
            Step::Take { n, visibility } => {
                let in_flight = list.iter().filter(|item| matches!(item.what, What::Leased { .. })).count();
                let mut due: Vec<usize> = (0..list.len())
                    .filter(|n| matches!(list[*n].what, What::Waits(due) if due <= now))
                    .collect();
                due.sort_by_key(|n| (list[*n].what, list[*n].id));
                due.truncate(n.min(MAX_IN_FLIGHT - in_flight));
                let taken = bench.take(n, visibility);
                let ids: Vec<ItemId> = taken.iter().map(|delivery| delivery.receipt.id()).collect();
                assert_eq!(ids, due.iter().map(|n| list[*n].id).collect::<Vec<_>>());
                for (n, delivery) in due.into_iter().zip(taken) {
                    list[n].attempt += 1;
                    list[n].what = What::Leased { until: now + visibility, receipt: receipts.len() };
                    assert_eq!(delivery.receipt.attempt(), list[n].attempt);
                    receipts.push(delivery.receipt);
                }
            }
            Step::Ack(n) => {
                if let Some(n) = pick(n) {
                    let held = held(&list, n);
                    assert_eq!(bench.queue.ack(&receipts[n]).unwrap(), held.is_some());
                    held.map(|n| list.remove(n));
                }
            }
            Step::Nack(n) => {
                if let Some(n) = pick(n) {
                    let held = held(&list, n);
                    assert_eq!(bench.queue.nack(&receipts[n], "no").unwrap(), held.is_some());
                    held.into_iter().for_each(|n| fail(&mut list[n], now, DELAY));
                }
            }
            Step::NackAfter(n, delay) => {
                if let Some(n) = pick(n) {
                    let held = held(&list, n);
                    assert_eq!(bench.queue.nack_after(&receipts[n], s(delay), "no").unwrap(), held.is_some());
                    held.into_iter().for_each(|n| fail(&mut list[n], now, delay));
                }
            }
            Step::Extend(n, span) => {
                if let Some(n) = pick(n) {
                    let held = held(&list, n);
                    assert_eq!(bench.queue.extend(&receipts[n], s(span)).unwrap(), held.is_some());
                    held.into_iter()
                        .for_each(|held| list[held].what = What::Leased { until: now + span, receipt: n });
                }
            }
            Step::Redrive => {
                if let Some(item) = list.iter_mut().find(|item| item.what == What::Dead) {
                    assert!(bench.queue.redrive(item.id).unwrap());
                    (item.attempt, item.what) = (0, What::Waits(now));
                }
            }
            Step::Purge => {
                if let Some(n) = list.iter().position(|item| item.what == What::Dead) {
                    assert!(bench.queue.purge(list.remove(n).id).unwrap());
                }
            }
            Step::Pass(seconds) => {
                now += seconds;
                bench.clock.advance(s(seconds));
            }
        }
        // Only a drive takes back what has run out; what has done so at different times, each from its own.
        bench.queue.drive();
        for item in &mut list {
            if let What::Leased { until, .. } = item.what
                && until <= now
            {
                fail(item, until, DELAY);
            }
        }
        let count = |is: fn(What) -> bool| list.iter().filter(|item| is(item.what)).count();
        let leased = count(|what| matches!(what, What::Leased { .. }));
        assert_eq!(
            bench.counts(),
            [count(|what| matches!(what, What::Waits(_))), leased, count(|what| what == What::Dead)]
        );
    }
}
