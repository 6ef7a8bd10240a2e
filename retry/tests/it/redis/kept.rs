//! What is kept: bytes, names, and numbers that no double holds.

use super::{cluster, connect, in_redis, new_name, server, started};
use ixion::Tick;
use ixion_redis_server::Server;
use ixion_retry::{Backoff, Delivery, Failure, MemoryStore, New, RedisStore, RetryQueue, Settlement, Store};
use std::time::Duration;

const NOW: Tick = Tick::new(5);
const LATER: Tick = Tick::new(9);

fn take(store: &RedisStore, n: usize) -> Vec<Delivery> {
    store.take(NOW, n, usize::MAX, LATER).unwrap()
}

#[test]
fn payloads_of_nothing_of_any_bytes_and_of_many_come_back_as_they_were() {
    in_redis(|store| {
        let many: Vec<u8> = (0..8 << 20).map(|n: u32| (n % 251) as u8).collect();
        let every: Vec<u8> = (0..=u8::MAX).chain(*b"\r\n$3\r\n").collect();
        // Together they are more than a script gives at once.
        let payloads = [&[][..], &every, &many, &many, &many, b"last"];
        let ids = store.push_all(&payloads.map(|payload| (payload, New::at(NOW)))).unwrap();
        let taken = take(&store, 9);
        assert_eq!(taken.iter().map(|delivery| delivery.receipt.id()).collect::<Vec<_>>(), ids);
        assert!(taken.iter().map(|delivery| delivery.payload.as_slice()).eq(payloads));
        let dead = New { due: None, ..New::at(NOW) };
        store.push_all(&payloads.map(|payload| (payload, dead.clone()))).unwrap();
        let letters = store.dead_letters(None, 9).unwrap();
        assert!(letters.iter().map(|letter| letter.payload.as_slice()).eq(payloads));
    });
}

#[test]
fn batches_of_thousands_are_several_steps_and_in_order() {
    in_redis(|store| {
        let items: Vec<_> = (0..2500).map(|_| (&b"x"[..], New::at(NOW))).collect();
        let ids = store.push_all(&items).unwrap();
        assert!(ids.is_sorted() && ids.len() == 2500);
        let taken = take(&store, 3000);
        assert_eq!(taken.iter().map(|delivery| delivery.receipt.id()).collect::<Vec<_>>(), ids);
        let done = taken.into_iter().map(|delivery| (delivery.receipt, Settlement::Done)).collect();
        assert_eq!(store.settle_all(done, NOW).unwrap(), [true; 2500]);
        let dead = New { due: None, ..New::at(NOW) };
        store.push_all(&vec![(&b"x"[..], dead); 2500]).unwrap();
        assert_eq!(store.dead_letters(None, 2400).unwrap().len(), 2400);
        assert_eq!(store.counts().unwrap().dead, 2500);
    });
}

#[test]
fn numbers_that_no_double_holds_are_kept() {
    const ABOVE: u64 = (1 << 53) + 1;
    let name = new_name();
    let store = RedisStore::open(&server().url(), &name).unwrap();
    ::redis::cmd("SET").arg(format!("{{{name}}}:id")).arg(ABOVE).exec(&mut connect(server())).unwrap();
    let at = |tick| New { due: Some(Tick::new(tick)), ..New::at(Tick::new(tick)) };
    let (late, early) =
        (store.push(b"late", at(ABOVE)).unwrap(), store.push(b"early", at(ABOVE - 1)).unwrap());
    assert_eq!((late.as_u64(), early.as_u64()), (ABOVE + 1, ABOVE + 2));
    assert_eq!(store.next_change(Tick::ZERO).unwrap(), Some(Tick::new(ABOVE - 1)));
    let taken = store.take(Tick::new(ABOVE - 1), 9, 9, Tick::new(ABOVE)).unwrap();
    assert_eq!(taken.iter().map(|delivery| delivery.receipt.id()).collect::<Vec<_>>(), [early]);
    let early = taken[0].receipt;
    let reaped = store.reap(vec![(early, Settlement::Done)], Tick::new(ABOVE - 1)).unwrap();
    assert_eq!(reaped, [false], "not over yet");
    assert!(!store.settle(&early, Tick::new(ABOVE), Settlement::Done).unwrap(), "over");
    assert!(store.settle(&early, Tick::new(ABOVE - 1), Settlement::Extend(Tick::MAX)).unwrap());
    assert_eq!(store.next_change(Tick::new(ABOVE)).unwrap(), Some(Tick::MAX));
    assert_eq!(store.next_change(Tick::MAX).unwrap(), None);
}

#[test]
fn attempts_end_where_their_numbers_do() {
    in_redis(|store| {
        store.push(b"x", New { attempt: u32::MAX - 1, ..New::at(NOW) }).unwrap();
        for _ in 0..2 {
            let receipt = take(&store, 1).remove(0).receipt;
            assert_eq!(receipt.attempt(), u32::MAX);
            let again = Settlement::Retry { due: NOW, delay: Duration::MAX, failure: failure() };
            assert!(store.settle(&receipt, NOW, again).unwrap());
        }
    });
}

/// Only a queue makes one.
fn failure() -> Failure {
    let queue = RetryQueue::builder(MemoryStore::new()).backoff(Backoff::standard().max_attempts(1)).build();
    queue.push_failed(b"x", 1, "no").unwrap();
    queue.dead_letters(None, 1).unwrap().remove(0).history.remove(0)
}

#[test]
fn a_name_is_any_text_and_all_of_a_queue_is_on_one_node() {
    let long = "x".repeat(10_000);
    for name in ["{a}", "a}b{c", "a b\r\n", "ü{}", "{", long.as_str()] {
        let store = RedisStore::open_cluster(cluster().urls(), name).unwrap();
        let id = store.push(b"x", New::at(NOW)).unwrap();
        let taken = take(&store, 9);
        assert_eq!(taken.iter().map(|delivery| delivery.receipt.id()).collect::<Vec<_>>(), [id], "{name:?}");
        assert!(store.settle(&taken[0].receipt, NOW, Settlement::Done).unwrap());
    }
    for name in ["", "}", "}a{"] {
        let error = RedisStore::open(&server().url(), name).unwrap_err().to_string();
        assert!(error.contains("no name of a queue"), "{error}");
    }
}

#[test]
fn queues_of_different_names_have_nothing_in_common() {
    let stores = [new_name(), new_name()].map(|name| RedisStore::open(&server().url(), &name).unwrap());
    stores[0].push(b"x", New::at(NOW)).unwrap();
    assert_eq!((take(&stores[1], 1).len(), take(&stores[0], 1).len()), (0, 1));
}

#[test]
fn a_receipt_of_an_item_that_the_server_has_lost_is_for_no_other() {
    let server = Server::start().unwrap();
    let store = RedisStore::open(&server.url(), "q").unwrap();
    let pushed = |tick| New { pushed: Tick::new(tick), ..New::at(NOW) };
    let id = store.push(b"lost", pushed(1)).unwrap();
    let lost = take(&store, 1).remove(0).receipt;
    server.ask("FLUSHALL").unwrap();
    assert_eq!(store.push(b"new", pushed(2)).unwrap(), id, "names begin anew");
    assert_eq!(take(&store, 1).len(), 1);
    assert!(!store.settle(&lost, NOW, Settlement::Done).unwrap());
    assert_eq!(store.counts().unwrap().in_flight, 1);
}

#[test]
fn scripts_that_the_server_has_forgotten_are_sent_again() {
    let server = Server::start().unwrap();
    let store = RedisStore::open(&server.url(), "q").unwrap();
    for _ in 0..2 {
        store.push(b"x", New::at(NOW)).unwrap();
        server.ask("SCRIPT FLUSH").unwrap();
    }
    assert_eq!(take(&store, 9).len(), 2);
}

#[test]
fn nothing_is_searched_for_and_a_taker_that_waits_asks_nothing() {
    let server = Server::start().unwrap();
    let queue = started(RedisStore::open(&server.url(), "q").unwrap(), 2);
    for n in 0..20 {
        queue.push(b"x", Duration::from_millis(n)).unwrap();
        let taken = queue.take_blocking(1, Duration::from_secs(60), Duration::from_secs(60)).unwrap();
        queue.nack(&taken[0].receipt, "no").unwrap();
        let again = queue.try_take(1, Duration::from_secs(60)).unwrap();
        assert!(queue.ack(&again[0].receipt).unwrap());
    }
    let commands = |server: &Server| -> Vec<String> {
        let info = server.ask("INFO commandstats").unwrap();
        let names = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        names.map(|(name, _)| name.to_owned()).collect()
    };
    let all = commands(&server);
    assert!(all.contains(&"zrange".to_owned()), "{all:?}");
    assert!(
        !all.iter().any(|name| name.contains("scan") || name == "keys" || name.ends_with("all")),
        "{all:?}"
    );

    // A wait that is longer asks no more.
    let looks = |wait| {
        super::shared::settle_down(&server);
        server.ask("CONFIG RESETSTAT").unwrap();
        assert!(
            queue.take_blocking(1, Duration::from_secs(60), Duration::from_millis(wait)).unwrap().is_empty()
        );
        let info = server.ask("INFO commandstats").unwrap();
        let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
        let asked = ["ping", "time", "info", "evalsha", "zcard", "zrange", "config|resetstat"];
        assert!(commands(&server).iter().all(|name| asked.contains(&name.as_str())), "{info}");
        calls.split_once(',').unwrap().0.parse::<usize>().unwrap()
    };
    assert_eq!(looks(1500), looks(100));
}
