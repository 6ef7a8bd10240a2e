//! Any steps of a queue, with any store, beside a list that is gone through from end to end.

use crate::queue::{Bench, s};
use ixion_retry::{Answer, Backoff, ItemId, Receipt, RetryQueue, Store};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Push(Vec<u64>),
    Take { n: usize, visibility: u64 },
    Settle(Vec<(usize, Say)>),
    Redrive,
    Purge,
    Pass(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Say {
    Ack,
    Nack,
    NackAfter(u64),
    Extend(u64),
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let say = prop_oneof![
        2 => Just(Say::Ack),
        2 => Just(Say::Nack),
        1 => (0..4u64).prop_map(Say::NackAfter),
        1 => (0..4u64).prop_map(Say::Extend),
    ];
    let batch = prop_oneof![3 => 1..2usize, 1 => 0..4usize];
    prop_oneof![
        3 => batch.clone().prop_flat_map(|n| prop::collection::vec(0..4u64, n)).prop_map(Step::Push),
        4 => (0..4usize, 0..4u64).prop_map(|(n, visibility)| Step::Take { n, visibility }),
        6 => batch
            .prop_flat_map(move |n| prop::collection::vec((any::<usize>(), say.clone()), n))
            .prop_map(Step::Settle),
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

/// Settles deliveries, one by itself.
fn settle<S: Store>(queue: &RetryQueue<S>, receipts: &[Receipt], batch: &[(usize, Say)]) -> Vec<bool> {
    if let [(n, say)] = batch {
        let receipt = &receipts[*n];
        return vec![match *say {
            Say::Ack => queue.ack(receipt).unwrap(),
            Say::Nack => queue.nack(receipt, "no").unwrap(),
            Say::NackAfter(delay) => queue.nack_after(receipt, s(delay), "no").unwrap(),
            Say::Extend(span) => queue.extend(receipt, s(span)).unwrap(),
        }];
    }
    let answer = |say| match say {
        Say::Ack => Answer::Ack,
        Say::Nack => Answer::Nack("no".to_owned()),
        Say::NackAfter(delay) => Answer::NackAfter(s(delay), "no".to_owned()),
        Say::Extend(span) => Answer::Extend(s(span)),
    };
    queue.settle_all(batch.iter().map(|(n, say)| (receipts[*n], answer(*say)))).unwrap()
}

fn settle_listed(list: &mut Vec<Listed>, receipt: usize, say: Say, now: u64) -> bool {
    let held = list.iter().position(
        |item| matches!(item.what, What::Leased { until, receipt: its } if its == receipt && until > now),
    );
    let Some(n) = held else { return false };
    match say {
        Say::Ack => _ = list.remove(n),
        Say::Nack => fail(&mut list[n], now, DELAY),
        Say::NackAfter(delay) => fail(&mut list[n], now, delay),
        Say::Extend(span) => list[n].what = What::Leased { until: now + span, receipt },
    }
    true
}

pub(crate) fn any_steps_agree_with_a_list<S: Store>(store: S, steps: Vec<Step>) {
    let bench = Bench::new(store, Backoff::fixed(s(DELAY)).max_attempts(ATTEMPTS), MAX_IN_FLIGHT);
    let mut list: Vec<Listed> = Vec::new();
    let mut receipts = Vec::new();
    let mut now = 0;
    for step in steps {
        match step {
            Step::Push(delays) => {
                let ids = match delays[..] {
                    [delay] => vec![bench.push("x", delay)],
                    _ => {
                        let items: Vec<_> = delays.iter().map(|delay| ("x", s(*delay))).collect();
                        bench.queue.push_all(&items).unwrap()
                    }
                };
                assert_eq!(ids.len(), delays.len());
                for (id, delay) in ids.into_iter().zip(delays) {
                    list.push(Listed { id, attempt: 0, what: What::Waits(now + delay) });
                }
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
            Step::Settle(batch) if !receipts.is_empty() => {
                let batch: Vec<_> = batch.into_iter().map(|(n, say)| (n % receipts.len(), say)).collect();
                let counted = settle(&bench.queue, &receipts, &batch);
                let expected: Vec<bool> =
                    batch.iter().map(|(n, say)| settle_listed(&mut list, *n, *say, now)).collect();
                assert_eq!(counted, expected);
            }
            Step::Settle(_) => {}
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
