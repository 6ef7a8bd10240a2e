//! Several queues on one server, on real threads and real time. Bounds are wide: a wait that nobody ends lasts a minute.

use super::{connect, new_name, server, started};
use ixion::Clock;
use ixion_redis_server::Server;
use ixion_retry::{Backoff, Delivery, ItemId, Receipt, RedisClock, RedisStore, RetryQueue, Store};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
/// Less than this is by no chance, and by no look a second later.
const SOON: Duration = Duration::from_secs(20);
const MOMENT: Duration = Duration::from_millis(50);

/// Waits until something is so.
fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < SOON, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until nobody has asked the server anything for a moment.
pub(super) fn settle_down(server: &Server) {
    let mut connection = connect(server);
    let mut asked = || {
        let info: String = ::redis::cmd("INFO").arg("stats").query(&mut connection).unwrap();
        let all = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap();
        all.trim().parse::<u64>().unwrap()
    };
    let mut before = asked();
    loop {
        thread::sleep(MOMENT);
        let now = asked();
        if now == before + 1 {
            return;
        }
        before = now;
    }
}

/// Two queues, both of which listen.
fn pair(max_in_flight: usize) -> [RetryQueue<RedisStore>; 2] {
    let name = new_name();
    let open = |_| started(RedisStore::open(&server().url(), &name).unwrap(), max_in_flight);
    let queues = [0, 1].map(open);
    listening(server(), &name, 2);
    queues
}

fn listening(server: &Server, name: &str, queues: usize) {
    until("all listen", || {
        let (_, heard): (String, usize) = ::redis::cmd("PUBSUB")
            .arg("NUMSUB")
            .arg(format!("{{{name}}}:changed"))
            .query(&mut connect(server))
            .unwrap();
        heard == queues
    });
}

/// A taker waits here, while something happens there: it has an item soon.
fn wakes(here: &RetryQueue<RedisStore>, happens: impl FnOnce()) -> Delivery {
    thread::scope(|scope| {
        let taker = scope.spawn(|| here.take_blocking(1, LONG, LONG).unwrap());
        // It shall be asleep; if it is not yet, this shows less.
        thread::sleep(MOMENT);
        let begun = Instant::now();
        happens();
        let mut taken = taker.join().unwrap();
        assert!(begun.elapsed() < SOON && taken.len() == 1);
        taken.remove(0)
    })
}

#[test]
fn a_taker_wakes_for_what_another_queue_pushes_and_gives_back() {
    let [here, there] = pair(usize::MAX);
    let first = wakes(&here, || _ = there.push(b"x", Duration::ZERO).unwrap());
    assert_eq!(first.payload, b"x");
    let second = wakes(&here, || _ = there.nack(&first.receipt, "from elsewhere").unwrap());
    assert_eq!(second.receipt.attempt(), 2);
}

#[test]
fn a_taker_wakes_for_what_becomes_due_when_the_queue_that_has_pushed_it_is_gone() {
    let [here, there] = pair(usize::MAX);
    let begun = Instant::now();
    let late = wakes(&here, || {
        there.push(b"later", LONG).unwrap();
        there.push(b"soon", Duration::from_millis(300)).unwrap();
        drop(there);
    });
    assert_eq!(late.payload, b"soon");
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_taker_wakes_when_another_queue_makes_room() {
    let [here, there] = pair(1);
    there.push(b"a", Duration::ZERO).unwrap();
    there.push(b"b", Duration::ZERO).unwrap();
    let a = there.try_take(1, LONG).unwrap().remove(0);
    let b = wakes(&here, || assert!(there.ack(&a.receipt).unwrap()));
    assert_eq!(b.payload, b"b");
}

#[test]
fn a_taker_wakes_for_what_was_redriven_elsewhere() {
    let name = new_name();
    let open = || RedisStore::open(&server().url(), &name).unwrap();
    let (here, there) = (started(open(), 9), open());
    let there = RetryQueue::builder(there).backoff(Backoff::standard().max_attempts(1)).build();
    listening(server(), &name, 2);
    let id = there.push_failed(b"dead", 1, "no").unwrap();
    let again = wakes(&here, || assert!(there.redrive(id).unwrap()));
    assert_eq!((again.receipt.id(), again.receipt.attempt()), (id, 1));
}

#[test]
fn what_a_queue_that_is_gone_had_in_flight_is_taken_back_by_another() {
    let [here, there] = pair(usize::MAX);
    there.push(b"x", Duration::ZERO).unwrap();
    let taken = there.try_take(1, Duration::from_millis(500)).unwrap().remove(0);
    let again = wakes(&here, || drop(there));
    assert_eq!((again.receipt.id(), again.receipt.attempt()), (taken.receipt.id(), 2));
}

#[test]
fn what_is_given_back_by_a_shorter_time_is_taken_back_by_another() {
    let [here, there] = pair(usize::MAX);
    there.push(b"x", Duration::ZERO).unwrap();
    let taken = there.try_take(1, LONG).unwrap().remove(0);
    let again = wakes(&here, || {
        assert!(there.extend(&taken.receipt, Duration::from_millis(100)).unwrap());
        drop(there);
    });
    assert_eq!((again.receipt.id(), again.receipt.attempt()), (taken.receipt.id(), 2));
}

/// Two wait here, one of them for more than there is. Whoever is first goes with what there is, and the other has what comes later.
fn second_has_the_rest(
    max_in_flight: usize,
    delay: Duration,
    happens: impl FnOnce(&RetryQueue<RedisStore>, &Receipt),
) {
    let [here, there] = &pair(max_in_flight);
    there.push(b"held", Duration::ZERO).unwrap();
    let held = there.try_take(1, LONG).unwrap().remove(0);
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for n in [9, 1] {
            let tell = tell.clone();
            scope.spawn(move || tell.send(here.take_blocking(n, LONG, LONG).unwrap().len()).unwrap());
            // They shall be in this order; if they are not, this shows less.
            thread::sleep(MOMENT);
        }
        there.push_all(&[(b"a", Duration::ZERO), (b"b", delay)]).unwrap();
        assert_eq!(told.recv_timeout(SOON), Ok(1));
        happens(there, &held.receipt);
        assert_eq!(told.recv_timeout(SOON), Ok(1));
    });
}

#[test]
fn a_taker_that_got_less_than_it_asked_for_leaves_the_next_to_another() {
    // Long enough for the first to be gone by then.
    second_has_the_rest(usize::MAX, Duration::from_secs(2), |_, _| {});
}

#[test]
fn a_taker_that_got_what_there_was_room_for_leaves_the_next_to_another() {
    second_has_the_rest(2, Duration::ZERO, |there, held| assert!(there.ack(held).unwrap()));
}

#[test]
fn what_was_said_while_nobody_listened_is_found_afterwards() {
    let server = Server::start().unwrap();
    let [here, there] = [0, 1].map(|_| started(RedisStore::open(&server.url(), "q").unwrap(), 1));
    for _ in 0..5 {
        listening(&server, "q", 2);
        let taken = wakes(&here, || {
            // They are back in no time, but not before this.
            ::redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("PUBSUB").exec(&mut connect(&server)).unwrap();
            there.push(b"x", Duration::ZERO).unwrap();
        });
        assert!(there.ack(&taken.receipt).unwrap());
    }
}

#[test]
fn machines_go_by_the_time_of_the_server() {
    let store = RedisStore::open(&server().url(), &new_name()).unwrap();
    let clock = store.own_clock().expect("that of the server");
    let (seconds, micros): (u64, u64) = ::redis::cmd("TIME").query(&mut connect(server())).unwrap();
    let theirs = Duration::from_secs(seconds) + Duration::from_micros(micros);
    let ours = clock.elapsed();
    // The server runs on this machine.
    assert!(ours.abs_diff(theirs) < SOON, "{ours:?} {theirs:?}");
    drop(store);
    assert!(clock.elapsed() >= ours, "it goes on without its store");
}

/// The server's time, and a little more or less.
struct Skewed {
    clock: RedisClock,
    ahead: Duration,
}

impl Clock for Skewed {
    fn elapsed(&self) -> Duration {
        (self.clock.elapsed() + self.ahead).saturating_sub(Duration::from_millis(30))
    }
}

/// Each item comes when nothing else happens that might wake somebody, from queues in which nobody takes: so none may
/// miss it.
#[test]
fn takers_miss_nothing_though_their_clocks_differ() {
    const ROUNDS: usize = 42;
    const EACH: usize = 3;
    let name = new_name();
    let queues = [0, 60, 30, 30].map(|ahead| {
        let store = RedisStore::open(&server().url(), &name).unwrap();
        let clock = Skewed { clock: store.clock(), ahead: Duration::from_millis(ahead) };
        let builder = RetryQueue::builder(store).backoff(Backoff::fixed(Duration::ZERO)).clock(clock);
        builder.max_in_flight(2).start().unwrap()
    });
    listening(server(), &name, 4);
    let (pushers, takers) = queues.split_at(2);
    let done = AtomicUsize::new(0);
    // However this ends, they go.
    let is_over = defer(|| takers.iter().for_each(RetryQueue::close));
    thread::scope(|scope| {
        for queue in takers.iter().flat_map(|queue| [queue; 2]) {
            let done = &done;
            scope.spawn(move || {
                while let Some(taken) = queue.take_blocking(1, LONG, LONG).unwrap().pop() {
                    assert!(queue.ack(&taken.receipt).unwrap());
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _is_over = is_over;
        for round in 0..ROUNDS {
            let delay = |n: usize| (b"x", Duration::from_millis((10 * n * (round % 7)) as u64));
            pushers[round % 2].push_all(&[0, 1, 2].map(delay)).unwrap();
            until("all of a round are done", || done.load(Ordering::Relaxed) == EACH * (round + 1));
        }
    });
}

/// Does something when it is dropped.
fn defer(end: impl Fn()) -> impl Drop {
    struct Defer<F: Fn()>(F);
    impl<F: Fn()> Drop for Defer<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    Defer(end)
}

/// What has become of the numbers that were pushed.
#[derive(Default)]
struct Ledger {
    /// The items that were acknowledged for sure.
    gone: BTreeSet<ItemId>,
    /// The numbers of those, and of those whose acknowledgement was not answered.
    done: BTreeSet<u64>,
}

#[test]
fn queues_go_on_when_the_server_is_killed_and_nothing_is_lost() {
    const EACH: u64 = 60;
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let queues = [0, 1].map(|_| started(RedisStore::open(&server.url(), "q").unwrap(), usize::MAX));
    let (ledger, pushing, is_done) =
        (Mutex::new(Ledger::default()), AtomicUsize::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        for (pusher, queue) in queues.iter().enumerate() {
            let pushing = &pushing;
            scope.spawn(move || {
                for n in 0..EACH {
                    let number = pusher as u64 * EACH + n;
                    // What is refused, or not answered, is pushed again.
                    while queue.push(&number.to_be_bytes(), Duration::from_millis(n % 7)).is_err() {}
                    thread::sleep(Duration::from_millis(10));
                }
                pushing.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for queue in &queues {
            let (ledger, is_done) = (&ledger, &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    let wait = Duration::from_millis(500);
                    for delivery in queue.take_blocking(4, Duration::from_secs(1), wait).unwrap_or_default() {
                        let number = u64::from_be_bytes(delivery.payload.as_slice().try_into().unwrap());
                        let id = delivery.receipt.id();
                        assert!(!ledger.lock().gone.contains(&id), "{id} was acknowledged");
                        let counts = queue.ack(&delivery.receipt);
                        let mut ledger = ledger.lock();
                        if let Ok(true) = counts {
                            ledger.gone.insert(id);
                        }
                        if let Ok(true) | Err(_) = counts {
                            ledger.done.insert(number);
                        }
                    }
                }
            });
        }
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(150));
            server.restart().unwrap();
        }
        until("all is pushed", || pushing.load(Ordering::Relaxed) == 0);
        until("all is taken and acknowledged", || {
            queues[0].counts().is_ok_and(|counts| counts.waiting + counts.in_flight == 0)
        });
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(ledger.into_inner().done.into_iter().eq(0..2 * EACH));
}

#[test]
fn a_store_is_dropped_soon_also_when_its_server_does_nothing() {
    let server = Server::start().unwrap();
    let open = || started(RedisStore::open(&server.url(), "q").unwrap(), 1);
    let (quiet, stopped) = (open(), open());
    listening(&server, "q", 2);
    let begun = Instant::now();
    drop(quiet);
    listening(&server, "q", 1);
    server.stop().unwrap();
    drop(stopped);
    assert!(begun.elapsed() < SOON);
    server.cont().unwrap();
    listening(&server, "q", 0);
}
