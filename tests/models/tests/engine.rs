//! Whole engines: three to six threads that do everything at once, at random. What each does is drawn from the schedule's
//! own numbers, so a schedule that is run again does the same.
#![cfg(ixion_shuttle)]

use ixion::{
    Cancelled, DelayedOperation, Expirer, HandedBack, ManualClock, OperationId, Outcome, Purgatory, Watch,
    model_time,
};
use ixion_models::explore;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::thread::spawn;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The keys that operations wait on.
const KEYS: u32 = 3;
/// One key in each shard, at least, that nobody waits on.
const UNWATCHED: std::ops::Range<u32> = 100..132;

const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(15);
const HORIZON: Duration = Duration::from_secs(60);

/// All that the threads of one execution share. Its own books are std's: they are no points of a schedule.
struct Scene {
    purgatory: Purgatory<u32, Op>,
    clock: Option<ManualClock>,
    /// What is waited for: one flag for each key, or a sum of numbers.
    flags: [AtomicBool; KEYS as usize],
    progress: [AtomicU64; KEYS as usize],
    fates: Mutex<Vec<Arc<Fate>>>,
    ids: Mutex<Vec<OperationId>>,
    tally: Tally,
    /// Operations that have not ended, and the scene itself while threads may add some.
    open: AtomicUsize,
}

/// What the calls said that they decided.
#[derive(Default)]
struct Tally {
    satisfied: AtomicUsize,
    expired: AtomicUsize,
    forced: AtomicUsize,
    cancelled: AtomicUsize,
    shut_down: AtomicUsize,
}

/// What has become of an operation.
struct Fate {
    keys: Vec<u32>,
    /// The sum of the numbers of its keys that it waits for. `None`: the flag of any of them.
    needs: Option<u64>,
    ends: Mutex<Vec<Outcome>>,
    is_accepted: AtomicBool,
}

/// Waits for what its fate says. Its callback sets another flag, if it is told to.
struct Op {
    scene: Arc<Scene>,
    fate: Arc<Fate>,
    /// The numbers of its keys at its last look.
    seen: Vec<u64>,
    then: Option<u32>,
}

impl Op {
    /// Notes the end, which is the end of what the scene keeps alive by it.
    fn end(self, outcome: Outcome) {
        self.fate.ends.lock().unwrap().push(outcome);
        self.scene.close();
    }
}

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        let Some(needs) = self.fate.needs else { return self.scene.is_met(&self.fate) };
        self.seen = self.scene.numbers(&self.fate);
        self.seen.iter().sum::<u64>() >= needs
    }

    /// Whatever is missing, an equal part of it comes on some key.
    fn next_progress(&self, watch: usize) -> Option<u64> {
        let missing = self.fate.needs? - self.seen.iter().sum::<u64>();
        Some(self.seen[watch] + missing.div_ceil(self.seen.len() as u64))
    }

    fn on_complete(self, outcome: Outcome) {
        if let Some(key) = self.then {
            self.scene.signal(key);
        }
        self.end(outcome);
    }
}

impl Scene {
    fn new(clock: Option<ManualClock>) -> Arc<Scene> {
        let builder = Purgatory::builder("model").shards(thread_rng().gen_range(1..=3)).hash_seed(3);
        let builder = match &clock {
            Some(clock) => builder.clock(clock.clone()),
            None => builder.clock(ModelClock),
        };
        Arc::new(Scene {
            purgatory: builder.build(),
            clock,
            flags: Default::default(),
            progress: Default::default(),
            fates: Mutex::default(),
            ids: Mutex::default(),
            tally: Tally::default(),
            open: AtomicUsize::new(1),
        })
    }

    fn numbers(&self, fate: &Fate) -> Vec<u64> {
        fate.keys.iter().map(|&key| self.progress[key as usize].load(Ordering::Relaxed)).collect()
    }

    fn is_met(&self, fate: &Fate) -> bool {
        match fate.needs {
            Some(needs) => self.numbers(fate).iter().sum::<u64>() >= needs,
            None => fate.keys.iter().any(|&key| self.flags[key as usize].load(Ordering::Relaxed)),
        }
    }

    fn go_on(&self, key: u32) {
        let reached = self.progress[key as usize].fetch_add(1, Ordering::Relaxed) + 1;
        self.tally.satisfied.fetch_add(self.purgatory.check_and_complete_up_to(&key, reached), SeqCst);
    }

    fn signal(&self, key: u32) {
        self.flags[key as usize].store(true, Ordering::Relaxed);
        self.tally.satisfied.fetch_add(self.purgatory.check_and_complete(&key), SeqCst);
    }

    fn close(&self) {
        if self.open.fetch_sub(1, SeqCst) == 1 {
            model_time::stop();
        }
    }

    fn register(self: &Arc<Self>, timeout: Duration) {
        let mut rng = thread_rng();
        let keys: BTreeSet<u32> = (0..rng.gen_range(0..=2)).map(|_| rng.gen_range(0..KEYS)).collect();
        let fate = Arc::new(Fate {
            keys: keys.into_iter().collect(),
            needs: rng.gen_bool(0.5).then(|| rng.gen_range(1..=4)),
            ends: Mutex::default(),
            is_accepted: AtomicBool::new(true),
        });
        self.fates.lock().unwrap().push(Arc::clone(&fate));
        self.open.fetch_add(1, SeqCst);
        let keys = fate.keys.clone();
        let then = rng.gen_bool(0.2).then(|| rng.gen_range(0..KEYS));
        let watch = |key| if fate.needs.is_some() { Watch::at(key, 0) } else { Watch::any(key) };
        let watches: Vec<Watch<u32>> = keys.into_iter().map(watch).collect();
        let op = Op { scene: Arc::clone(self), fate, seen: Vec::new(), then };
        match self.purgatory.try_complete_else_watch_at(op, timeout, watches) {
            Ok(registration) => self.ids.lock().unwrap().extend(registration.id()),
            Err(rejected) => {
                rejected.op.fate.is_accepted.store(false, Ordering::Relaxed);
                self.close();
            }
        }
    }

    fn take(&self, cancelled: Cancelled<Op>) {
        self.tally.cancelled.fetch_add(usize::from(cancelled.is_cancelled()), SeqCst);
        if let Cancelled::Taken(op) = cancelled {
            op.end(Outcome::Cancelled);
        }
    }

    fn take_all(back: HandedBack<Op>, outcome: Outcome, tally: &AtomicUsize) {
        tally.fetch_add(back.count(), SeqCst);
        for op in back.taken {
            op.end(outcome);
        }
    }

    /// Does one thing at random: one of the first so many.
    fn act(self: &Arc<Self>, choices: u32, timeouts: &[Duration]) {
        let mut rng = thread_rng();
        let timeout = timeouts[rng.gen_range(0..timeouts.len())];
        let key = rng.gen_range(0..KEYS);
        let id = {
            let ids = self.ids.lock().unwrap();
            (!ids.is_empty()).then(|| ids[rng.gen_range(0..ids.len())])
        };
        let (purgatory, tally) = (&self.purgatory, &self.tally);
        match (rng.gen_range(0..choices), id) {
            (0..=3, _) => self.register(timeout),
            (4, _) => self.signal(key),
            (5, _) => self.go_on(key),
            (6, _) => {
                tally.satisfied.fetch_add(purgatory.check_and_complete(&key), SeqCst);
            }
            (7, Some(id)) => {
                purgatory.reset_timeout(id, timeout);
            }
            (8, _) => {
                purgatory.reset_timeout_for_key(&key, timeout);
            }
            (9, _) => self.take(purgatory.cancel_first(&key)),
            (10, Some(id)) => self.take(purgatory.cancel(id)),
            (11, _) => Scene::take_all(purgatory.cancel_for_key(&key), Outcome::Cancelled, &tally.cancelled),
            (12, Some(id)) => {
                tally.forced.fetch_add(usize::from(purgatory.force_complete(id)), SeqCst);
            }
            (13, _) => {
                tally.forced.fetch_add(purgatory.force_complete_for_key(&key), SeqCst);
            }
            (14..=16, _) => {
                tally.expired.fetch_add(purgatory.expire().expired, SeqCst);
            }
            (17, _) => self.clock.iter().for_each(|clock| clock.advance(SOON)),
            (18, _) => self.shut_down(),
            _ => assert!(purgatory.time_to_next().is_none_or(|time| time <= LATER)),
        }
    }

    fn shut_down(&self) {
        if thread_rng().r#gen() {
            self.tally.shut_down.fetch_add(self.purgatory.shutdown(), SeqCst);
        } else {
            let back = self.purgatory.shutdown_and_hand_back();
            Scene::take_all(back, Outcome::Shutdown, &self.tally.shut_down);
        }
    }

    /// At a quiet point: what waits has reason to, and is all that is kept.
    fn check(&self) {
        // Whoever comes by goes on with what was handed on.
        for key in UNWATCHED {
            assert_eq!(self.purgatory.check_and_complete(&key), 0);
        }
        let fates = self.fates.lock().unwrap();
        let (mut watched, mut keys, mut pending) = (0, BTreeSet::<u32>::new(), 0);
        for fate in fates.iter() {
            let ends = fate.ends.lock().unwrap().len();
            let is_accepted = fate.is_accepted.load(Ordering::Relaxed);
            assert!(ends <= usize::from(is_accepted), "{ends} ends");
            if is_accepted && ends == 0 {
                assert!(!self.is_met(fate), "an event was lost");
                watched += fate.keys.len();
                keys.extend(&fate.keys);
                pending += 1;
            }
        }
        let stats = self.purgatory.stats();
        assert!(stats.balances() && stats.panics == 0, "{stats:?}");
        assert_eq!((stats.pending, stats.watched, stats.keys), (pending, watched, keys.len()), "{stats:?}");
    }

    /// After the shutdown: everything has ended, as the books and the calls say.
    fn check_end(&self) {
        self.check();
        let stats = self.purgatory.stats();
        assert_eq!((stats.pending, self.purgatory.len()), (0, 0), "{stats:?}");
        let fates = self.fates.lock().unwrap();
        let ended = |outcome| {
            let ends = fates
                .iter()
                .map(|fate| fate.ends.lock().unwrap().iter().filter(|&&it| it == outcome).count());
            ends.sum::<usize>()
        };
        let of_books = [stats.satisfied, stats.expired, stats.forced, stats.cancelled, stats.shut_down];
        let of_ends =
            [Outcome::Satisfied, Outcome::Expired, Outcome::Forced, Outcome::Cancelled, Outcome::Shutdown];
        assert_eq!(of_ends.map(|outcome| ended(outcome) as u64), of_books);
        let said = |tally: &AtomicUsize| tally.load(SeqCst) as u64;
        let tally = &self.tally;
        assert!(said(&tally.satisfied) <= stats.satisfied, "a look was counted twice");
        let of_calls = [&tally.forced, &tally.cancelled, &tally.shut_down].map(said);
        assert_eq!(of_calls, [stats.forced, stats.cancelled, stats.shut_down]);
        if self.clock.is_some() {
            assert_eq!(said(&tally.expired), stats.expired);
        }
    }
}

/// Lets three to six threads, this one included, act on a scene.
fn act(scene: &Arc<Scene>, choices: u32, timeouts: &'static [Duration]) {
    let others = thread_rng().gen_range(2..=5);
    let threads: Vec<_> = (0..others)
        .map(|_| {
            let scene = Arc::clone(scene);
            spawn(move || (0..4).for_each(|_| scene.act(choices, timeouts)))
        })
        .collect();
    (0..4).for_each(|_| scene.act(choices, timeouts));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn everything_at_once_and_then_a_shutdown() {
    explore(4000, || {
        let scene = Scene::new(Some(ManualClock::new()));
        act(&scene, 18, &[Duration::ZERO, SOON, Duration::MAX]);
        scene.check();
        scene.shut_down();
        scene.check_end();
    });
}

#[test]
fn everything_at_once_and_a_shutdown_too() {
    explore(4000, || {
        let scene = Scene::new(Some(ManualClock::new()));
        act(&scene, 20, &[Duration::ZERO, SOON, Duration::MAX]);
        scene.check();
        scene.shut_down();
        scene.check_end();
    });
}

/// The clock of the model.
struct ModelClock;

impl ixion::Clock for ModelClock {
    fn elapsed(&self) -> Duration {
        model_time::now()
    }
}

#[test]
fn everything_at_once_beside_an_expirer() {
    explore(4000, || {
        let scene = Scene::new(None);
        let expirer = Expirer::spawn("expirer").unwrap();
        expirer.drive(&scene.purgatory);
        let clock = spawn(|| model_time::run(HORIZON));
        // Nobody else drives, and all expire some time.
        act(&scene, 14, &[Duration::ZERO, SOON, LATER]);
        scene.close();
        clock.join().unwrap();
        drop(expirer);
        scene.check_end();
    });
}
