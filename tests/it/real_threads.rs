//! The expirer's thread, in real time. Lower bounds are exact, upper ones are wide.

use crate::guarantees::support::ms_of as ms;
use crate::jobs::{Jobs, SOON, job};
use ixion::{Clock, DelayedOperation, Expirer, ManualClock, Outcome, Purgatory, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

struct Timed {
    started: Instant,
    end: Sender<(Duration, Outcome)>,
}

impl DelayedOperation for Timed {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, outcome: Outcome) {
        let _ = self.end.send((self.started.elapsed(), outcome));
    }
}

type Timers = Purgatory<u32, Timed>;

fn start(purgatory: &Timers, timeout: Duration) -> Receiver<(Duration, Outcome)> {
    let (end, ended) = channel();
    let op = Timed { started: Instant::now(), end };
    let _ = purgatory.try_complete_else_watch(op, timeout, [1]).expect("open");
    ended
}

/// Waits until a count of wake-ups stands still for a while.
fn settled(expirer: &Expirer) -> u64 {
    loop {
        let before = expirer.wake_ups();
        thread::sleep(ms(50));
        if expirer.wake_ups() == before {
            return before;
        }
    }
}

#[test]
fn an_expirer_expires_never_early() {
    let expirer = Expirer::spawn("expirer").unwrap();
    let purgatory = Timers::builder("real").build();
    expirer.drive(&purgatory);
    let timers: Vec<_> = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55]
        .map(|timeout| (ms(timeout), start(&purgatory, ms(timeout))))
        .into();
    for (timeout, ended) in timers {
        let (after, outcome) = ended.recv_timeout(SOON).expect("it expires");
        assert_eq!(outcome, Outcome::Expired);
        assert!(after >= timeout, "{after:?} is early for {timeout:?}");
    }
}

#[test]
fn with_nothing_due_there_are_no_wake_ups() {
    let expirer = Expirer::spawn("idle").unwrap();
    let purgatory = Timers::builder("idle").build();
    expirer.drive(&purgatory);
    let _hour = start(&purgatory, Duration::from_secs(3600));
    let before = settled(&expirer);
    thread::sleep(ms(300));
    assert_eq!(expirer.wake_ups(), before, "one timer is an hour away");
    // Later deadlines, events and cancellations of later ones wake nobody either.
    for _ in 0..100 {
        let _ = start(&purgatory, Duration::from_secs(7200));
    }
    purgatory.check_and_complete(&1);
    thread::sleep(ms(100));
    assert_eq!(expirer.wake_ups(), before);
}

#[test]
fn an_earlier_deadline_wakes_a_thread_that_sleeps_for_a_later_one() {
    let expirer = Expirer::spawn("earlier").unwrap();
    let purgatory = Timers::builder("earlier").build();
    expirer.drive(&purgatory);
    let far = start(&purgatory, Duration::from_secs(100 * 365 * 24 * 3600));
    settled(&expirer);
    let near = start(&purgatory, ms(20));
    let (after, _) = near.recv_timeout(SOON).expect("it is not overslept");
    assert!(after >= ms(20));
    assert!(far.try_recv().is_err());
    drop(purgatory);
    assert_eq!(far.recv_timeout(SOON).expect("the drop completes it").1, Outcome::Shutdown);
}

#[test]
fn who_only_asks_for_the_next_deadline_does_not_silence_the_bell() {
    let expirer = Expirer::spawn("asked").unwrap();
    let purgatory = Timers::builder("asked").build();
    expirer.drive(&purgatory);
    for _ in 0..100 {
        let near = start(&purgatory, ms(3_600_000));
        assert!(purgatory.time_to_next().is_some());
        drop(purgatory.cancel_for_key(&1));
        drop(near);
        let ended = start(&purgatory, ms(1));
        let _ = purgatory.next_expiration();
        assert_eq!(ended.recv_timeout(SOON).expect("it is not overslept").1, Outcome::Expired);
    }
}

#[test]
fn a_reset_to_an_earlier_deadline_wakes_it_too() {
    let expirer = Expirer::spawn("reset").unwrap();
    let purgatory = Timers::builder("reset").build();
    expirer.drive(&purgatory);
    let ended = start(&purgatory, Duration::MAX);
    settled(&expirer);
    assert_eq!(purgatory.reset_timeout_for_key(&1, ms(5)), 1);
    assert_eq!(ended.recv_timeout(SOON).expect("it is not overslept").1, Outcome::Expired);
}

#[test]
fn one_thread_drives_many_purgatories_and_lets_go_of_those_that_are_over() {
    let expirer = Expirer::spawn("many").unwrap();
    let purgatories: Vec<Timers> = (0..20).map(|n| Timers::builder(format!("p{n}")).build()).collect();
    for purgatory in &purgatories {
        expirer.drive(purgatory);
        expirer.drive(purgatory); // twice is once
    }
    let timers: Vec<_> = purgatories.iter().map(|purgatory| start(purgatory, ms(10))).collect();
    for ended in timers {
        assert_eq!(ended.recv_timeout(SOON).expect("it expires").1, Outcome::Expired);
    }
    assert_eq!(format!("{expirer:?}"), "Expirer { driven: 20, .. }");
    drop(purgatories);
    let since = Instant::now();
    while format!("{expirer:?}") != "Expirer { driven: 0, .. }" {
        assert!(since.elapsed() < SOON, "{expirer:?}");
        thread::sleep(ms(1));
    }
}

#[test]
fn a_dropped_expirer_drives_no_more_and_another_can_take_over() {
    let clock = ManualClock::new();
    let purgatory = Timers::builder("handover").clock(clock.clone()).build();
    let first = Expirer::spawn("first").unwrap();
    first.drive(&purgatory);
    let ended = start(&purgatory, ms(50));
    drop(first);
    clock.advance(ms(60));
    thread::sleep(ms(60));
    assert!(ended.try_recv().is_err(), "nobody drives");
    let second = Expirer::spawn("second").unwrap();
    second.drive(&purgatory);
    assert_eq!(ended.recv_timeout(SOON).expect("it expires").1, Outcome::Expired);
}

#[test]
fn a_shutdown_from_a_callback_answers_everything_though_a_pass_is_bounded() {
    struct Closing(Option<Arc<Purgatory<u32, Closing>>>, Sender<Outcome>);
    impl DelayedOperation for Closing {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, outcome: Outcome) {
            if let Some(purgatory) = self.0 {
                purgatory.shutdown();
            }
            self.1.send(outcome).unwrap();
        }
    }
    let purgatory: Arc<Purgatory<u32, Closing>> = Arc::new(Purgatory::builder("closing").build());
    let (end, ends) = channel();
    for _ in 0..5000 {
        let _ =
            purgatory.try_complete_else_watch(Closing(None, end.clone()), Duration::MAX, [1]).expect("open");
    }
    let closing = Closing(Some(Arc::clone(&purgatory)), end);
    let _ = purgatory.try_complete_else_watch(closing, ms(1), [1]).expect("open");
    let expirer = Expirer::spawn("closing").unwrap();
    expirer.drive(&purgatory);
    assert_eq!(ends.recv_timeout(SOON), Ok(Outcome::Expired));
    for _ in 0..5000 {
        assert_eq!(ends.recv_timeout(SOON), Ok(Outcome::Shutdown));
    }
}

#[test]
fn an_expirer_may_be_dropped_on_its_own_thread() {
    struct Last(Option<Expirer>, Sender<()>);
    impl DelayedOperation for Last {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(mut self, _: Outcome) {
            drop(self.0.take());
            self.1.send(()).unwrap();
        }
    }
    let purgatory: Purgatory<u32, Last> = Purgatory::builder("self").build();
    let expirer = Expirer::spawn("self").unwrap();
    expirer.drive(&purgatory);
    let (told, tell) = channel();
    let _ = purgatory.try_complete_else_watch(Last(Some(expirer), told), ms(5), [1]).expect("open");
    tell.recv_timeout(SOON).expect("it does not wait for itself");
}

/// Registers itself again as long as it may, and another crowd in another purgatory once.
struct Again {
    own: Arc<Purgatory<u32, Again>>,
    go_on: Arc<AtomicBool>,
    other: Option<Arc<Purgatory<u32, Again>>>,
}

impl Again {
    /// So many that a drive takes two passes.
    const CROWD: usize = 1500;

    fn crowd(
        own: &Arc<Purgatory<u32, Again>>,
        go_on: &Arc<AtomicBool>,
        mut other: Option<Arc<Purgatory<u32, Again>>>,
    ) {
        for number in 0..Again::CROWD {
            let other = if number == Again::CROWD - 100 { other.take() } else { None };
            let again = Again { own: Arc::clone(own), go_on: Arc::clone(go_on), other };
            let _ = own.try_complete_else_watch(again, Duration::ZERO, []).expect("open");
        }
    }
}

impl DelayedOperation for Again {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(mut self, _: Outcome) {
        if let Some(other) = self.other.take() {
            Again::crowd(&other, &self.go_on, None);
        }
        if self.go_on.load(Ordering::Relaxed) {
            let own = Arc::clone(&self.own);
            let _ = own.try_complete_else_watch(self, Duration::ZERO, []).expect("open");
        }
    }
}

/// One of them has more to do after each turn: the second begins in the second pass of the first.
#[test]
fn purgatories_that_are_never_done_at_the_same_time_do_not_keep_the_expirer_from_a_third() {
    let [first, second] = [1, 2].map(|_| Arc::new(Purgatory::<u32, Again>::builder("busy").build()));
    let go_on = Arc::new(AtomicBool::new(true));
    Again::crowd(&first, &go_on, Some(Arc::clone(&second)));
    let expirer = Expirer::spawn("turns").unwrap();
    expirer.drive(&first);
    expirer.drive(&second);
    while second.stats().expired < 10_000 {
        thread::yield_now();
    }
    let third = Timers::builder("third").build();
    expirer.drive(&third);
    let ended = start(&third, ms(5));
    let end = ended.recv_timeout(SOON);
    go_on.store(false, Ordering::Relaxed);
    assert_eq!(end.expect("it has its turn").1, Outcome::Expired);
}

#[test]
fn two_expirers_whose_callbacks_drop_each_other_both_end() {
    let purgatories: [_; 2] = std::array::from_fn(|_| Arc::new(Jobs::builder("two").build()));
    let expirers: [_; 2] = std::array::from_fn(|n| Expirer::spawn(format!("two-{n}")).unwrap());
    let both_are_inside = Arc::new(Barrier::new(2));
    let (end, ended) = channel();
    for (own, purgatory) in expirers.iter().zip(&purgatories) {
        own.drive(purgatory);
    }
    for (purgatory, other) in purgatories.iter().zip(expirers.into_iter().rev()) {
        let (both_are_inside, end) = (Arc::clone(&both_are_inside), end.clone());
        job(purgatory, ms(1), move |_| {
            both_are_inside.wait();
            drop(other);
            end.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        ended.recv_timeout(SOON).expect("neither waits for the other");
    }
}

#[test]
fn destructors_that_panic_on_the_expirers_thread_leave_it_alive() {
    /// Panics when it is dropped, with a payload that does so again.
    struct Bomb(u32);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::panic_any(Bomb(self.0 - 1));
            }
        }
    }
    let expirer = Expirer::spawn("bombs").unwrap();
    let bomb = Bomb(3);
    let hook = move || {
        let _kept = &bomb;
    };
    let armed = Arc::new(Jobs::builder("armed").on_earlier_deadline(hook).build());
    expirer.drive(&armed);
    let (gone, dropped) = (Arc::clone(&armed), channel());
    job(&armed, ms(50), move |_| {
        // The thread has the last hold on the engine now.
        drop(gone);
        dropped.0.send(()).unwrap();
    });
    drop(armed);
    dropped.1.recv_timeout(SOON).expect("it expires");
    let purgatory = Timers::builder("after").build();
    expirer.drive(&purgatory);
    let ended = start(&purgatory, ms(1));
    assert_eq!(ended.recv_timeout(SOON).expect("the thread lives").1, Outcome::Expired);
}

#[test]
fn cancelling_or_postponing_the_earliest_costs_one_wake_up_at_most() {
    let expirer = Expirer::spawn("postponed").unwrap();
    let purgatory = Timers::builder("postponed").build();
    expirer.drive(&purgatory);
    let _far = start(&purgatory, Duration::from_secs(3600));
    settled(&expirer);
    let _near = start(&purgatory, ms(1000));
    let before = settled(&expirer);
    assert_eq!(purgatory.reset_timeout_for_key(&1, Duration::from_secs(7200)), 2);
    assert_eq!(purgatory.cancel_first(&1).taken().iter().count(), 1);
    thread::sleep(ms(1100));
    assert!(settled(&expirer) <= before + 1, "the one at which the earliest was due");
}

#[test]
fn callbacks_that_panic_harm_neither_the_thread_nor_the_other_purgatories() {
    let expirer = Expirer::spawn("panics").unwrap();
    let bad = Jobs::builder("bad").on_panic(|_| panic!("the hook too")).build();
    let good = Timers::builder("good").build();
    expirer.drive(&bad);
    expirer.drive(&good);
    for _ in 0..20 {
        job(&bad, ms(1), |_| panic!("callback"));
        let ended = start(&good, ms(1));
        assert_eq!(ended.recv_timeout(SOON).expect("it expires").1, Outcome::Expired);
    }
    let since = Instant::now();
    while bad.stats().panics < 40 {
        assert!(since.elapsed() < SOON, "{bad:?}");
        thread::sleep(ms(1));
    }
    assert!(bad.stats().balances() && bad.is_empty());
}

#[test]
fn a_clock_that_panics_holds_up_its_own_purgatory_alone() {
    struct Moody(SystemClock, Arc<AtomicBool>);
    impl Clock for Moody {
        fn elapsed(&self) -> Duration {
            if self.1.load(Ordering::Relaxed) {
                std::panic::resume_unwind(Box::new("no time"));
            }
            self.0.elapsed()
        }
    }
    let expirer = Expirer::spawn("clocks").unwrap();
    let stuck = Arc::new(AtomicBool::new(false));
    let bad = Timers::builder("bad").clock(Moody(SystemClock::default(), Arc::clone(&stuck))).build();
    let good = Timers::builder("good").build();
    expirer.drive(&bad);
    expirer.drive(&good);
    let late = start(&bad, ms(5));
    stuck.store(true, Ordering::Relaxed);
    for _ in 0..5 {
        assert_eq!(start(&good, ms(5)).recv_timeout(SOON).expect("it expires").1, Outcome::Expired);
    }
    stuck.store(false, Ordering::Relaxed);
    assert_eq!(late.recv_timeout(SOON).expect("it is asked again").1, Outcome::Expired);
}

#[test]
fn callbacks_run_on_the_thread_of_the_given_name_and_it_ends_with_its_expirer() {
    let expirer = Expirer::spawn("my-expirer").unwrap();
    let purgatory = Jobs::builder("named").build();
    expirer.drive(&purgatory);
    let (name, named) = channel();
    // Its thread-locals are dropped when the thread ends: then this sees its other end closed.
    let (alive, gone) = channel::<()>();
    thread_local!(static ALIVE: std::cell::RefCell<Option<Sender<()>>> = const { std::cell::RefCell::new(None) });
    job(&purgatory, ms(1), move |_| {
        ALIVE.set(Some(alive));
        name.send(thread::current().name().map(str::to_owned)).unwrap();
    });
    assert_eq!(named.recv_timeout(SOON), Ok(Some("my-expirer".to_owned())));
    assert_eq!(gone.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
    job(&purgatory, Duration::from_secs(3600), |_| ());
    let since = Instant::now();
    drop(expirer);
    assert!(since.elapsed() < SOON, "it does not sleep its hour");
    assert_eq!(gone.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected), "the thread was joined");
    assert_eq!(purgatory.shutdown(), 1);
}

#[test]
fn purgatories_of_one_expirer_get_a_pass_each_in_turn() {
    const EACH: usize = 5000;
    let expirer = Expirer::spawn("turns").unwrap();
    let purgatories: [Jobs; 3] = ["gate", "a", "b"].map(|name| Purgatory::builder(name).build());
    let (turns, ended) = channel();
    for (number, purgatory) in purgatories.iter().enumerate().skip(1) {
        for _ in 0..EACH {
            let turns = turns.clone();
            job(purgatory, Duration::ZERO, move |_| turns.send(number).unwrap());
        }
    }
    // The thread is held with the first one, until it has been given the others.
    let ((enter, entered), (open, gate)) = (channel(), channel::<()>());
    job(&purgatories[0], Duration::ZERO, move |_| {
        enter.send(()).unwrap();
        gate.recv().unwrap();
    });
    expirer.drive(&purgatories[0]);
    entered.recv_timeout(SOON).expect("it drives");
    purgatories[1..].iter().for_each(|purgatory| expirer.drive(purgatory));
    open.send(()).unwrap();
    let order: Vec<usize> = (0..2 * EACH).map(|_| ended.recv_timeout(SOON).expect("all expire")).collect();
    let longest = order.chunk_by(|one, next| one == next).map(<[usize]>::len).max();
    assert!(longest < Some(EACH / 2), "{longest:?} of one in a row while the other had work too");
}

#[test]
fn a_thread_whose_name_cannot_be_is_an_error() {
    assert_eq!(Expirer::spawn("a\0b").unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn a_purgatory_on_a_manual_clock_is_not_expired_by_real_time() {
    let expirer = Expirer::spawn("manual").unwrap();
    let clock = ManualClock::new();
    let purgatory = Timers::builder("manual").clock(clock.clone()).build();
    expirer.drive(&purgatory);
    let ended = start(&purgatory, ms(5));
    thread::sleep(ms(30));
    assert!(ended.try_recv().is_err());
    clock.advance(ms(5));
    assert_eq!(ended.recv_timeout(SOON).expect("the thread looks again").1, Outcome::Expired);
}

#[test]
fn the_books_balance_after_a_storm() {
    struct Stormy(Arc<AtomicU64>, u64, Arc<AtomicU64>);
    impl DelayedOperation for Stormy {
        fn try_complete(&mut self) -> bool {
            self.0.load(Ordering::Relaxed) >= self.1
        }
        fn on_complete(self, _: Outcome) {
            self.2.fetch_add(1, Ordering::Relaxed);
        }
    }
    const THREADS: u64 = 4;
    const EACH: u64 = 20_000;
    let expirer = Expirer::spawn("storm").unwrap();
    let purgatory: Purgatory<u64, Stormy> = Purgatory::builder("storm").shards(4).build();
    expirer.drive(&purgatory);
    let (progress, ended, taken) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (purgatory, progress, ended, taken, start) = (&purgatory, &progress, &ended, &taken, &start);
            scope.spawn(move || {
                let mut random = thread + 1;
                start.wait();
                for number in 0..EACH {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let (pick, key) = ((random >> 33) % 8, (random >> 40) % 50);
                    let op = Stormy(Arc::clone(progress), number * THREADS / 2, Arc::clone(ended));
                    let timeout = Duration::from_micros((random >> 20) % 3000);
                    let id = purgatory.try_complete_else_watch(op, timeout, [key, key + 1, 99]).unwrap().id();
                    progress.fetch_add(1, Ordering::Relaxed);
                    match (pick, id) {
                        (0, Some(id)) => taken
                            .fetch_add(purgatory.cancel(id).taken().iter().count() as u64, Ordering::Relaxed),
                        (1, Some(id)) => u64::from(purgatory.force_complete(id)),
                        (2, Some(id)) => u64::from(purgatory.reset_timeout(id, timeout)),
                        (3, _) => taken
                            .fetch_add(purgatory.cancel_for_key(&key).taken.len() as u64, Ordering::Relaxed),
                        (4, _) => purgatory.force_complete_for_key(&key) as u64,
                        _ => purgatory.check_and_complete(&key) as u64,
                    };
                }
            });
        }
    });
    let back = purgatory.shutdown_and_hand_back();
    drop(expirer);
    let stats = purgatory.stats();
    assert!(stats.balances() && stats.pending == 0 && stats.watched == 0 && stats.keys == 0, "{stats:?}");
    let handed = taken.load(Ordering::Relaxed) + back.taken.len() as u64;
    assert_eq!(ended.load(Ordering::Relaxed) + handed, THREADS * EACH, "each ended once: {stats:?}");
    assert_eq!(stats.registered, THREADS * EACH);
}
