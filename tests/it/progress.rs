//! Watching at a number: who is looked at, in which order, and what a look that says no may ask for.

use crate::uptime::clock;
use ixion::{
    BoxedOperation, DelayedOperation, OperationId, Outcome, Purgatory, Registration, Resolution, Watch,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the operations see, and what became of them.
#[derive(Default)]
struct World {
    progress: BTreeMap<u32, u64>,
    looked: Vec<u32>,
    ended: Vec<(u32, Outcome)>,
}

type Shared = Arc<Mutex<World>>;

/// Waits for a key's progress to reach a number. After a look that says no its watches wait at `asks`; or, as its looks go
/// by, at each of `wanders`.
struct Op {
    number: u32,
    key: u32,
    needs: u64,
    asks: Vec<u64>,
    wanders: Vec<u64>,
    looks: usize,
    world: Shared,
}

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        self.looks += 1;
        let mut world = self.world.lock().unwrap();
        world.looked.push(self.number);
        world.progress.get(&self.key).is_some_and(|progress| *progress >= self.needs)
    }

    fn next_progress(&self, watch: usize) -> Option<u64> {
        self.asks.get(watch).or(self.wanders.get(self.looks - 1)).copied()
    }

    fn on_complete(self, outcome: Outcome) {
        self.world.lock().unwrap().ended.push((self.number, outcome));
    }
}

struct Bench {
    purgatory: Purgatory<u32, Op>,
    world: Shared,
    next: u32,
}

impl Bench {
    fn new(shards: usize) -> Self {
        let purgatory = Purgatory::builder("progress")
            .clock(clock(Resolution::MILLISECOND))
            .shards(shards)
            .hash_seed(1)
            .build();
        Bench { purgatory, world: Shared::default(), next: 0 }
    }

    fn watch(&mut self, needs: u64, asks: &[u64], watches: &[Watch<u32>]) -> (u32, OperationId) {
        self.add(needs, asks, &[], watches)
    }

    fn add(
        &mut self,
        needs: u64,
        asks: &[u64],
        wanders: &[u64],
        watches: &[Watch<u32>],
    ) -> (u32, OperationId) {
        let number = self.next;
        self.next += 1;
        let (asks, wanders, world) = (asks.to_vec(), wanders.to_vec(), Arc::clone(&self.world));
        let op = Op { number, key: 1, needs, asks, wanders, looks: 0, world };
        let registration =
            self.purgatory.try_complete_else_watch_at(op, Duration::MAX, watches.iter().copied());
        let id = registration.expect("open").id().expect("waits");
        self.world.lock().unwrap().looked.clear();
        (number, id)
    }

    /// First the state, then the signal. Returns who was looked at.
    fn progress(&mut self, key: u32, to: u64) -> Vec<u32> {
        self.world.lock().unwrap().progress.insert(key, to);
        self.purgatory.check_and_complete_up_to(&key, to);
        std::mem::take(&mut self.world.lock().unwrap().looked)
    }

    fn ended(&self) -> Vec<u32> {
        let ended = std::mem::take(&mut self.world.lock().unwrap().ended);
        assert!(ended.iter().all(|(_, outcome)| *outcome == Outcome::Satisfied));
        ended.into_iter().map(|(number, _)| number).collect()
    }
}

#[test]
fn an_event_looks_at_those_whose_number_it_has_reached_and_at_no_other() {
    let mut bench = Bench::new(4);
    for needs in (0..1000).rev() {
        bench.watch(needs, &[], &[Watch::at(1, needs)]);
    }
    assert_eq!(bench.progress(1, 0), [999]);
    assert_eq!(bench.progress(1, 3), [998, 997, 996], "by number, not by registration");
    assert_eq!(bench.progress(2, 999), [0; 0], "another key's progress");
    assert_eq!(bench.progress(1, 3), [0; 0]);
    assert_eq!(bench.progress(1, u64::MAX).len(), 996);
    assert_eq!(bench.ended().len(), 1000);
    assert!(bench.purgatory.is_empty() && bench.purgatory.watched() == 0 && bench.purgatory.key_count() == 0);
}

#[test]
fn those_without_a_number_are_looked_at_by_every_event_and_before_the_others() {
    let mut bench = Bench::new(1);
    bench.watch(5, &[], &[Watch::at(1, 5)]);
    bench.watch(7, &[], &[Watch::any(1)]);
    bench.watch(5, &[], &[Watch::at(1, 5)]);
    assert_eq!(bench.progress(1, 4), [1]);
    assert_eq!(bench.progress(1, 5), [1, 0, 2]);
    assert_eq!(bench.ended(), [0, 2]);
    bench.watch(9, &[], &[Watch::at(1, 9)]);
    bench.purgatory.check_and_complete(&1);
    assert_eq!(bench.world.lock().unwrap().looked, [1, 3], "an event without a number looks at all");
}

#[test]
fn every_other_call_by_key_reaches_those_at_a_number_too() {
    let mut bench = Bench::new(2);
    bench.watch(5, &[], &[Watch::at(1, 5), Watch::at(2, 50)]);
    bench.watch(5, &[], &[Watch::any(1)]);
    assert!(bench.purgatory.contains_key(&2));
    assert_eq!((bench.purgatory.watched(), bench.purgatory.key_count()), (3, 2));
    assert_eq!(bench.purgatory.reset_timeout_for_key(&1, Duration::from_secs(1)), 2);
    assert_eq!(bench.purgatory.cancel_first(&2).taken().expect("waits there").number, 0);
    assert_eq!(bench.purgatory.cancel_for_key(&1).taken.len(), 1);
    bench.watch(5, &[], &[Watch::at(3, u64::MAX)]);
    assert_eq!(bench.purgatory.force_complete_for_key(&3), 1);
    assert_eq!((bench.purgatory.watched(), bench.purgatory.key_count()), (0, 0));
    assert!(bench.purgatory.stats().balances());
}

#[test]
fn a_key_given_twice_is_watched_once_at_the_lowest_number() {
    let cases: [(&[Watch<u32>], u64); 4] = [
        (&[Watch::at(1, 9), Watch::at(1, 4)], 4),
        (&[Watch::at(1, 4), Watch::at(1, 9)], 4),
        (&[Watch::at(1, 4), Watch::any(1)], 0),
        (&[Watch::any(1), Watch::at(1, 4)], 0),
    ];
    for (watches, lowest) in cases {
        for others in [0, 20] {
            let mut bench = Bench::new(2);
            let mut watches = watches.to_vec();
            watches.extend((0..others).map(|key| Watch::any(100 + key)));
            bench.watch(100, &[], &watches);
            assert_eq!(bench.purgatory.watched(), 1 + others as usize);
            if lowest > 0 {
                assert_eq!(bench.progress(1, lowest - 1), [0; 0]);
            }
            assert_eq!(bench.progress(1, lowest), [0]);
        }
    }
}

#[test]
fn after_a_look_that_says_no_an_operation_waits_at_the_number_it_asks_for() {
    let mut bench = Bench::new(1);
    // The first watch of the two is at a number that rises; the second one stays.
    bench.watch(50, &[40], &[Watch::at(1, 10), Watch::at(2, 1)]);
    assert_eq!(bench.progress(1, 9), [0; 0], "registration asks as well: the second look has said no");
    assert_eq!(bench.progress(1, 39), [0; 0]);
    assert_eq!(bench.progress(2, 1), [0], "this one does not move");
    assert_eq!(bench.progress(1, 40), [0]);
    // The number that is reached asks again each time.
    assert_eq!(bench.progress(1, 45), [0]);
    assert_eq!(bench.progress(1, 50), [0]);
    assert_eq!(bench.ended(), [0]);
    assert_eq!(bench.purgatory.watched(), 0);
}

#[test]
fn a_lower_number_costs_one_more_look_and_is_taken_in_whatever_key_it_is() {
    for shards in [1, 2] {
        let mut bench = Bench::new(shards);
        // Its looks: at 9, at 9 again, at 5 and one more for that, and so on.
        bench.add(50, &[], &[9, 9, 5, 5, 7, 3, 8], &[Watch::at(1, 1), Watch::at(2, 1)]);
        assert_eq!(bench.progress(1, 8), [0; 0]);
        assert_eq!(bench.progress(1, 9), [0, 0], "it goes down to 5 on both keys");
        assert_eq!(bench.progress(2, 4), [0; 0]);
        assert_eq!(bench.progress(2, 5), [0], "to 7");
        assert_eq!(bench.progress(1, 7), [0, 0], "to 3, and by the look for that to 8");
        assert_eq!((bench.progress(1, 7), bench.progress(2, 7)), (vec![], vec![]));
        assert_eq!(bench.progress(2, 8), [0], "and there it stays");
        bench.progress(1, 50);
        assert_eq!(bench.ended(), [0]);
    }
}

#[test]
fn a_look_that_asks_for_lower_and_lower_numbers_is_handed_on_some_time() {
    let mut bench = Bench::new(1);
    let (_, id) = bench.add(u64::MAX, &[], &(0..100).rev().collect::<Vec<u64>>(), &[Watch::at(1, 100)]);
    let mut drives = 0;
    while bench.purgatory.next_expiration().is_some() {
        let _ = bench.purgatory.expire();
        drives += 1;
        assert!(drives < 20, "it ends at 0");
    }
    assert!(drives > 2, "{drives}");
    bench.world.lock().unwrap().looked.clear();
    assert_eq!(bench.progress(1, 0), [0]);
    assert!(bench.purgatory.cancel(id).taken().is_some());
}

#[test]
fn a_boxed_operation_asks_for_its_number_too() {
    let purgatory: Purgatory<u32> = Purgatory::builder("boxed").clock(clock(Resolution::MILLISECOND)).build();
    let world = Shared::default();
    let world_of_op = Arc::clone(&world);
    let op = Op { number: 0, key: 1, needs: 9, asks: vec![7], wanders: vec![], looks: 0, world: world_of_op };
    let boxed = BoxedOperation::new(op);
    let registration = purgatory.try_complete_else_watch_at(boxed, Duration::MAX, [Watch::at(1, 1)]);
    assert!(matches!(registration, Ok(Registration::Watched(_))));
    world.lock().unwrap().looked.clear();
    purgatory.check_and_complete_up_to(&1, 6);
    assert!(world.lock().unwrap().looked.is_empty());
    purgatory.check_and_complete_up_to(&1, 7);
    assert_eq!(world.lock().unwrap().looked, [0]);
}

#[test]
fn a_panic_in_next_progress_ends_the_operation_as_one_in_its_look() {
    struct Panics(Arc<Mutex<Vec<Outcome>>>);
    impl DelayedOperation for Panics {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn next_progress(&self, _: usize) -> Option<u64> {
            panic!("no number")
        }
        fn on_complete(self, outcome: Outcome) {
            self.0.lock().unwrap().push(outcome);
        }
    }
    let purgatory: Purgatory<u32, Panics> =
        Purgatory::builder("panics").clock(clock(Resolution::MILLISECOND)).on_panic(|_| ()).build();
    let ends = Arc::new(Mutex::new(Vec::new()));
    let op = Panics(Arc::clone(&ends));
    let registration = purgatory.try_complete_else_watch_at(op, Duration::MAX, [Watch::at(1, 1)]);
    assert!(matches!(registration, Ok(Registration::Completed(Outcome::Panicked))));
    assert_eq!(*ends.lock().unwrap(), [Outcome::Panicked]);
    let stats = purgatory.stats();
    assert!(stats.balances() && (stats.panics, stats.watched, stats.keys) == (1, 0, 0), "{stats:?}");
}

/// Waits for ever, one further after each look.
struct Onward(u64, Arc<Mutex<u32>>);

impl DelayedOperation for Onward {
    fn try_complete(&mut self) -> bool {
        self.0 += 1;
        *self.1.lock().unwrap() += 1;
        false
    }
    fn next_progress(&self, _: usize) -> Option<u64> {
        Some(self.0)
    }
    fn on_complete(self, _: Outcome) {}
}

#[test]
fn a_walk_looks_once_at_operations_that_rise_before_it() {
    let purgatory: Purgatory<u32, Onward> =
        Purgatory::builder("onward").clock(clock(Resolution::MILLISECOND)).build();
    let looks = Arc::new(Mutex::new(0));
    for _ in 0..1000 {
        let op = Onward(0, Arc::clone(&looks));
        let _ = purgatory.try_complete_else_watch_at(op, Duration::MAX, [Watch::at(1, 1)]).expect("open");
    }
    for _ in 0..3 {
        *looks.lock().unwrap() = 0;
        assert_eq!(purgatory.check_and_complete(&1), 0);
        assert_eq!(*looks.lock().unwrap(), 1000);
    }
    *looks.lock().unwrap() = 0;
    assert_eq!(purgatory.check_and_complete_up_to(&1, 4), 0, "they wait at 5 now");
    assert_eq!(purgatory.check_and_complete_up_to(&1, 5), 0);
    assert_eq!(*looks.lock().unwrap(), 1000);
}

#[test]
fn a_reset_by_key_counts_each_once_though_they_rise_during_the_walk() {
    type Onwards = Arc<Purgatory<u32, Onward>>;
    let purgatory: Arc<Mutex<Option<Onwards>>> = Arc::default();
    let rung = Arc::clone(&purgatory);
    let built = Purgatory::builder("rising")
        .clock(clock(Resolution::MILLISECOND))
        .on_earlier_deadline(move || {
            // In the middle of the walk all that wait go a number further.
            if let Some(purgatory) = rung.lock().unwrap().clone() {
                purgatory.check_and_complete(&1);
            }
        })
        .build();
    let looks = Arc::new(Mutex::new(0));
    for _ in 0..1000 {
        let op = Onward(0, Arc::clone(&looks));
        let _ = built.try_complete_else_watch_at(op, Duration::MAX, [Watch::at(1, 1)]).expect("open");
    }
    *looks.lock().unwrap() = 0;
    *purgatory.lock().unwrap() = Some(Arc::new(built));
    let all = purgatory.lock().unwrap().clone().expect("it was put there");
    assert_eq!(all.next_expiration(), None);
    assert_eq!(all.reset_timeout_for_key(&1, Duration::from_secs(1)), 1000);
    assert_eq!(*looks.lock().unwrap(), 1000, "the hook was called once");
    purgatory.lock().unwrap().take();
}

#[derive(Clone, Debug)]
enum Step {
    Watch { needs: u64, at: Option<u64>, wanders: Vec<u64> },
    Progress(u64),
    Cancel(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..12u64;
    prop_oneof![
        3 => (number(), prop::option::of(number()), prop::collection::vec(number(), 0..8))
            .prop_map(|(needs, at, wanders)| Step::Watch { needs, at, wanders }),
        3 => number().prop_map(Step::Progress),
        1 => (0..20usize).prop_map(Step::Cancel),
    ]
}

/// A waiting operation of the model.
struct Waiting {
    number: u32,
    needs: u64,
    at: Option<u64>,
    wanders: std::vec::IntoIter<u64>,
    id: OperationId,
}

impl Waiting {
    /// Looks until it need not go to a lower number any more. Returns how often.
    fn look(&mut self) -> usize {
        let mut looks = 1;
        while let (Some(at), next) = (self.at, self.wanders.next()) {
            let next = next.unwrap_or(at);
            self.at = Some(next);
            if next >= at {
                break;
            }
            looks += 1;
        }
        looks
    }
}

proptest! {
    /// The engine against a list that is searched from front to back.
    #[test]
    fn it_looks_at_whom_a_plain_list_would_look_at(steps in prop::collection::vec(step(), 1..80), shards in 1..3usize) {
        let mut bench = Bench::new(shards);
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut progress = None;
        for step in steps {
            match step {
                Step::Watch { needs, at, wanders } => {
                    if progress >= Some(needs) {
                        continue; // the first look would complete it
                    }
                    let watch = at.map_or(Watch::any(1), |at| Watch::at(1, at));
                    let (number, id) = bench.add(needs, &[], &wanders, &[watch]);
                    let mut wanders = wanders.into_iter();
                    wanders.next(); // After the first look it waits nowhere yet.
                    let mut it = Waiting { number, needs, at, wanders, id };
                    it.look();
                    waiting.push(it);
                }
                Step::Progress(to) => {
                    progress = Some(to);
                    let mut reached: Vec<&mut Waiting> = waiting.iter_mut().filter(|it| it.at <= Some(to)).collect();
                    reached.sort_by_key(|it| (it.at, it.number));
                    let (mut expected, mut done) = (Vec::new(), Vec::new());
                    for it in reached {
                        let met = to >= it.needs;
                        done.extend(met.then_some(it.number));
                        expected.extend(vec![it.number; if met { 1 } else { it.look() }]);
                    }
                    prop_assert_eq!(bench.progress(1, to), expected);
                    prop_assert_eq!(bench.ended(), done.clone());
                    waiting.retain(|it| !done.contains(&it.number));
                }
                Step::Cancel(nth) if nth < waiting.len() => {
                    let Waiting { number, id, .. } = waiting.remove(nth);
                    prop_assert_eq!(bench.purgatory.cancel(id).taken().map(|op| op.number), Some(number));
                }
                Step::Cancel(_) => {}
            }
            prop_assert_eq!(bench.purgatory.watched(), waiting.len());
            prop_assert_eq!(bench.purgatory.key_count(), usize::from(!waiting.is_empty()));
        }
    }
}
