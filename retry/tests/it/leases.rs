//! Offsets in flight: what is delivered again, what may be committed.

use ixion::{Clock, ManualClock};
use ixion_retry::{Backoff, Lease, Leases, Next, Refused};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn leases(backoff: Backoff, max_in_flight: usize) -> (ManualClock, Leases<ManualClock>) {
    let clock = ManualClock::new();
    (clock.clone(), Leases::new(clock, backoff, max_in_flight))
}

/// Delivers `1..=10`; offset 0 is finished.
fn ten(backoff: Backoff) -> (ManualClock, Leases<ManualClock>, Vec<Lease>) {
    let (clock, mut leases) = leases(backoff, 100);
    leases.assign(1);
    let out = (1..=10).map(|offset| leases.deliver(offset, s(60)).unwrap()).collect();
    (clock, leases, out)
}

fn delivery(next: Option<Next>) -> Lease {
    let Some(Next::Deliver(lease)) = next else { panic!("{next:?} is no delivery") };
    lease
}

#[test]
fn whatever_fails_is_delivered_again_and_the_commit_never_passes_it() {
    // Which fail, and after how many of the others were acknowledged.
    let orders: [(&[u64], usize); 6] =
        [(&[1], 0), (&[6], 5), (&[10], 0), (&[10], 9), (&[2, 5, 9], 3), (&[1, 2, 3], 0)];
    for (failing, first_acks) in orders {
        let (clock, mut leases, out) = ten(Backoff::fixed(s(5)));
        let (fail, ack): (Vec<Lease>, Vec<Lease>) =
            out.into_iter().partition(|lease| failing.contains(&lease.offset()));
        let mut unfinished: BTreeSet<u64> = (1..=10).collect();
        let lowest = |unfinished: &BTreeSet<u64>| unfinished.first().copied().unwrap_or(11);
        for (step, lease) in ack.iter().enumerate() {
            if step == first_acks {
                assert!(fail.iter().all(|lease| leases.fail(*lease)));
                assert_eq!(leases.committable(), lowest(&unfinished), "{failing:?} have failed");
            }
            assert!(leases.ack(*lease));
            unfinished.remove(&lease.offset());
            assert_eq!(leases.committable(), lowest(&unfinished), "{failing:?} after {step}");
        }
        if first_acks >= ack.len() {
            assert!(fail.iter().all(|lease| leases.fail(*lease)));
            assert_eq!(leases.committable(), lowest(&unfinished), "{failing:?} have failed");
        }
        assert_eq!(leases.next(s(60)), None, "its delay is not over");
        clock.advance(s(5));
        for offset in failing {
            let again = delivery(leases.next(s(60)));
            assert_eq!((again.offset(), again.attempt()), (*offset, 2));
            assert!(leases.ack(again));
            unfinished.remove(offset);
            assert_eq!(leases.committable(), lowest(&unfinished));
        }
        assert_eq!((leases.committable(), leases.len(), leases.next(s(1))), (11, 0, None));
    }
}

#[test]
fn failing_and_running_out_use_up_the_same_attempts() {
    let (clock, mut leases) = leases(Backoff::fixed(s(1)).max_attempts(5), 10);
    let mut lease = leases.deliver(0, s(10)).unwrap();
    for attempt in 1..5 {
        assert_eq!(lease.attempt(), attempt);
        match attempt % 2 {
            0 => assert!(leases.fail(lease)),
            _ => clock.advance(s(10)),
        }
        assert_eq!(leases.next(s(10)), None, "attempt {attempt}: its delay starts when it has failed");
        clock.advance(s(1));
        lease = delivery(leases.next(s(10)));
    }
    assert!(leases.fail(lease));
    assert_eq!(leases.next(s(10)), Some(Next::Bury { offset: 0, attempts: 5 }));
    assert_eq!(leases.next(s(10)), None, "once");
    clock.advance(s(1000));
    assert_eq!((leases.next(s(10)), leases.committable()), (None, 0), "it is not passed before it is buried");
    assert!(leases.buried(0) && !leases.buried(0));
    assert_eq!(leases.committable(), 1);
}

#[test]
fn an_extension_counts_from_the_call() {
    let (clock, mut leases) = leases(Backoff::fixed(s(0)), 10);
    let (lease, once) = (leases.deliver(0, s(60)).unwrap(), leases.deliver(1, s(60)).unwrap());
    clock.advance_to(s(15));
    assert!(leases.extend(lease, s(10)) && leases.extend(once, s(10)));
    assert_eq!(leases.time_to_next(), Some(s(10)));
    clock.advance_to(s(20));
    assert!(leases.extend(lease, s(60)));
    clock.advance_to(s(25) - Duration::from_millis(1));
    assert_eq!(leases.next(s(60)), None);
    clock.advance_to(s(25));
    let again = delivery(leases.next(s(60)));
    assert!(again.offset() == 1 && leases.ack(again));
    clock.advance_to(s(80) - Duration::from_millis(1));
    assert_eq!(leases.next(s(60)), None);
    clock.advance_to(s(80));
    assert_eq!(delivery(leases.next(s(60))).attempt(), 2);
}

#[test]
fn a_lease_that_ran_out_changes_nothing() {
    let (clock, mut leases) = leases(Backoff::fixed(s(0)), 10);
    let old = leases.deliver(0, s(2)).unwrap();
    clock.advance_to(s(4));
    assert!(!leases.extend(old, s(30)), "it is due again, though nobody has taken it");
    let new = delivery(leases.next(s(2)));
    assert!(!leases.ack(old) && !leases.fail(old) && !leases.extend(old, s(30)));
    assert_eq!(leases.time_to_next(), Some(s(2)), "the new lease is as it was");
    assert!(leases.ack(new) && !leases.ack(new));
    assert_eq!(leases.committable(), 1);
}

#[test]
fn a_lease_is_good_until_its_deadline_and_not_at_it() {
    let (clock, mut leases) = leases(Backoff::fixed(s(0)), 10);
    let (first, second) = (leases.deliver(0, s(2)).unwrap(), leases.deliver(1, s(2)).unwrap());
    clock.advance_to(s(2) - Duration::from_nanos(1));
    assert!(leases.ack(first));
    clock.advance_to(s(2));
    assert!(!leases.ack(second));
}

#[test]
fn what_is_not_finished_is_bounded_however_long_one_stays() {
    let (clock, mut leases) = leases(Backoff::fixed(s(0)), 2);
    let stuck = leases.deliver(0, Duration::MAX).unwrap();
    for offset in 1..100_000 {
        let lease = leases.deliver(offset, s(1)).unwrap();
        assert_eq!(leases.deliver(offset + 1, s(1)), Err(Refused::Full));
        assert!(leases.ack(lease));
        assert!(leases.len() == 1 && leases.committable() == 0);
    }
    clock.advance(s(1_000_000));
    assert_eq!((leases.next(s(1)), leases.time_to_next()), (None, None), "for ever is no deadline");
    assert!(leases.ack(stuck));
    assert_eq!(leases.committable(), 100_000);
}

#[test]
fn leases_that_run_out_free_no_more_and_no_less_than_their_place() {
    let (clock, mut leases) = leases(Backoff::fixed(s(0)), 2);
    let mut stale = [leases.deliver(0, s(1)).unwrap(), leases.deliver(1, s(1)).unwrap()];
    for _ in 0..100 {
        clock.advance(s(1));
        let again = [delivery(leases.next(s(1))), delivery(leases.next(s(1)))];
        assert_eq!((leases.next(s(1)), leases.len()), (None, 2));
        assert!(!leases.ack(stale[0]));
        stale = again;
    }
}

#[test]
fn each_of_a_batch_has_a_deadline_of_its_own() {
    let (clock, mut leases, out) = ten(Backoff::fixed(s(5)));
    assert!(out[..3].iter().all(|lease| leases.ack(*lease)));
    assert!(out[3..5].iter().all(|lease| leases.fail(*lease)));
    assert!(leases.extend(out[5], s(120)));
    let mut due = Vec::new();
    for second in 0..=130 {
        clock.advance_to(s(second));
        while let Some(next) = leases.next(Duration::MAX) {
            due.push((second, delivery(Some(next)).offset()));
        }
    }
    assert_eq!(due, [(5, 4), (5, 5), (65, 7), (65, 8), (65, 9), (65, 10), (125, 6)]);
    assert_eq!(leases.committable(), 4);
}

#[test]
fn offsets_may_be_missing_but_come_once() {
    let (_, mut leases) = leases(Backoff::standard(), 10);
    leases.assign(100);
    assert_eq!(leases.deliver(99, s(1)), Err(Refused::Finished));
    let lease = leases.deliver(105, s(1)).unwrap();
    assert_eq!(leases.committable(), 105, "what compaction took away holds nothing up");
    assert_eq!(leases.deliver(105, s(1)), Err(Refused::Unfinished));
    assert_eq!(leases.deliver(103, s(1)), Err(Refused::Finished));
    assert!(leases.ack(lease));
    assert_eq!(leases.deliver(105, s(1)), Err(Refused::Finished));
    assert_eq!(leases.committable(), 106);
    let last = leases.deliver(u64::MAX, s(1)).unwrap();
    assert!(leases.ack(last));
    assert_eq!(leases.committable(), u64::MAX, "there is none after it");
    assert_eq!(leases.deliver(u64::MAX, s(1)), Err(Refused::Finished));
}

#[test]
fn a_partition_that_comes_back_starts_from_what_was_committed() {
    let (clock, mut leases, out) = ten(Backoff::fixed(s(5)));
    assert!(leases.ack(out[0]) && leases.fail(out[1]) && leases.ack(out[4]));
    let committed = leases.committable();
    leases.assign(committed);
    assert_eq!((committed, leases.len(), leases.time_to_next()), (2, 0, None));
    let new = leases.deliver(3, s(60)).unwrap();
    assert_eq!(new.attempt(), 1);
    assert!(!leases.ack(out[2]), "of the same offset and attempt, but of before");
    clock.advance(s(30));
    assert_eq!(leases.next(s(1)), None, "nothing of before is delivered");
    assert!(leases.ack(new));
}

#[test]
fn a_step_back_of_the_clock_ends_nothing_early() {
    let (clock, mut leases) = leases(Backoff::fixed(s(0)), 10);
    clock.advance_to(s(100));
    let lease = leases.deliver(0, s(10)).unwrap();
    clock.advance_to(s(50));
    assert_eq!(leases.next(s(1)), None);
    clock.advance_to(s(109));
    assert!(leases.extend(lease, s(10)));
    clock.advance_to(s(119));
    assert_eq!(delivery(leases.next(s(1))).attempt(), 2);
}

#[derive(Clone, Debug)]
enum Step {
    Deliver { gap: u64 },
    Ack(usize),
    Fail(usize),
    Extend(usize),
    Next,
    Buried,
    Pass(u64),
    Assign,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3u64).prop_map(|gap| Step::Deliver { gap }),
        3 => any::<usize>().prop_map(Step::Ack),
        2 => any::<usize>().prop_map(Step::Fail),
        1 => any::<usize>().prop_map(Step::Extend),
        3 => Just(Step::Next),
        1 => Just(Step::Buried),
        2 => (0..3u64).prop_map(Step::Pass),
        1 => prop::bool::weighted(0.05).prop_map(|yes| if yes { Step::Assign } else { Step::Next }),
    ]
}

/// The same books as a list that is gone through from end to end.
#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    next: u64,
}

struct Entry {
    offset: u64,
    attempt: u32,
    /// Until when it is leased, from when on it is due, or that it is dead; and whether that was given out.
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Leased(u64),
    DueFrom(u64),
    Dying,
    Dead,
}

const VISIBILITY: u64 = 3;
const DELAY: u64 = 2;
const ATTEMPTS: u32 = 3;
const MAX_IN_FLIGHT: usize = 4;

impl Model {
    fn expire(&mut self, now: u64) {
        for entry in &mut self.entries {
            if let What::Leased(until) = entry.what
                && until <= now
            {
                entry.fail(until);
            }
        }
    }

    fn holds(&mut self, lease: Lease) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| {
            (entry.offset, entry.attempt) == (lease.offset(), lease.attempt())
                && matches!(entry.what, What::Leased(_))
        })
    }
}

impl Entry {
    fn fail(&mut self, now: u64) {
        self.what = if self.attempt >= ATTEMPTS { What::Dying } else { What::DueFrom(now + DELAY) };
    }
}

proptest! {
    /// After any steps: what the list says of leases, of what is due and of what may be committed.
    #[test]
    fn any_steps_agree_with_a_list(steps in prop::collection::vec(step(), 1..200)) {
        let backoff = Backoff::fixed(s(DELAY)).max_attempts(ATTEMPTS);
        let (clock, mut leases) = leases(backoff, MAX_IN_FLIGHT);
        let mut model = Model::default();
        // All leases ever given, and those of before the last assignment, which must all be refused.
        let (mut given, mut old) = (Vec::new(), Vec::new());
        for step in steps {
            let now = clock.elapsed().as_secs();
            model.expire(now);
            let pick = |n: usize, given: &[Lease]| (!given.is_empty()).then(|| given[n % given.len()]);
            match step {
                Step::Deliver { gap } => {
                    let offset = model.next + gap;
                    let answer = leases.deliver(offset, s(VISIBILITY));
                    if model.entries.len() >= MAX_IN_FLIGHT {
                        prop_assert_eq!(answer, Err(Refused::Full));
                        continue;
                    }
                    given.push(answer.unwrap());
                    model.entries.push(Entry { offset, attempt: 1, what: What::Leased(now + VISIBILITY) });
                    model.next = offset + 1;
                }
                Step::Ack(n) => if let Some(lease) = pick(n, &given) {
                    let holds = model.holds(lease).is_some();
                    prop_assert_eq!(leases.ack(lease), holds);
                    model.entries.retain(|entry| !(holds && entry.offset == lease.offset()));
                },
                Step::Fail(n) => if let Some(lease) = pick(n, &given) {
                    let held = model.holds(lease);
                    prop_assert_eq!(leases.fail(lease), held.is_some());
                    if let Some(entry) = held { entry.fail(now) }
                },
                Step::Extend(n) => if let Some(lease) = pick(n, &given) {
                    let held = model.holds(lease);
                    prop_assert_eq!(leases.extend(lease, s(VISIBILITY)), held.is_some());
                    if let Some(entry) = held { entry.what = What::Leased(now + VISIBILITY) }
                },
                Step::Next => {
                    let next = leases.next(s(VISIBILITY));
                    let is_ready = |what| what == What::Dying || matches!(what, What::DueFrom(due) if due <= now);
                    match next {
                        None => prop_assert!(model.entries.iter().all(|entry| !is_ready(entry.what))),
                        Some(Next::Deliver(lease)) => {
                            let entry = model.entries.iter_mut().find(|entry| entry.offset == lease.offset()).unwrap();
                            prop_assert!(matches!(entry.what, What::DueFrom(due) if due <= now));
                            entry.attempt += 1;
                            entry.what = What::Leased(now + VISIBILITY);
                            prop_assert_eq!(lease.attempt(), entry.attempt);
                            given.push(lease);
                        }
                        Some(Next::Bury { offset, attempts }) => {
                            let entry = model.entries.iter_mut().find(|entry| entry.offset == offset).unwrap();
                            prop_assert_eq!((entry.what, attempts), (What::Dying, ATTEMPTS));
                            entry.what = What::Dead;
                        }
                        Some(other) => panic!("{other:?}"),
                    }
                }
                Step::Buried => {
                    let lowest = leases.committable();
                    let dead = |entry: &Entry| entry.offset == lowest && entry.what == What::Dead;
                    prop_assert_eq!(leases.buried(lowest), model.entries.iter().any(dead));
                    model.entries.retain(|entry| !dead(entry));
                }
                Step::Pass(seconds) => clock.advance(s(seconds)),
                Step::Assign => {
                    leases.assign(leases.committable());
                    model = Model { next: leases.committable(), ..Model::default() };
                    old.append(&mut given);
                }
            }
            for lease in &old {
                prop_assert!(!leases.ack(*lease) && !leases.fail(*lease) && !leases.extend(*lease, s(9)));
            }
            prop_assert_eq!(leases.len(), model.entries.len());
            let lowest = model.entries.iter().map(|entry| entry.offset).min();
            prop_assert_eq!(leases.committable(), lowest.unwrap_or(model.next));
        }
    }
}
