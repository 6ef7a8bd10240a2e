//! The file: what is in it after a restart, and what is no such file.

use crate::queue::{counts, s};
use ixion::ManualClock;
use ixion_retry::{Backoff, RedbStore, RetryQueue};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::thread;
use tempfile::TempDir;

fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.redb");
    (folder, file)
}

fn queue(file: &Path, clock: &ManualClock) -> RetryQueue<RedbStore> {
    let backoff = Backoff::fixed(s(5)).max_attempts(2);
    RetryQueue::builder(RedbStore::open(file).unwrap()).backoff(backoff).clock(clock.clone()).build()
}

#[test]
fn a_queue_that_is_opened_again_goes_on_where_it_was() {
    let ((_folder, file), clock) = (file(), ManualClock::new());
    let first = queue(&file, &clock);
    for (payload, delay) in [("taken", 0), ("failed", 0), ("later", 7)] {
        first.push(payload.as_bytes(), s(delay)).unwrap();
    }
    let (taken, failed) = {
        let mut both = first.try_take(2, s(10)).unwrap().into_iter();
        (both.next().unwrap(), both.next().unwrap())
    };
    assert!(first.nack(&failed.receipt, "no").unwrap());
    drop(first);

    let second = queue(&file, &clock);
    assert_eq!(counts(&second), [2, 1, 0]);
    assert!(second.extend(&taken.receipt, s(6)).unwrap(), "a receipt outlives its process");
    let mut due = Vec::new();
    for second_of in 1..=10 {
        clock.advance(s(1));
        second.drive();
        due.extend(second.try_take(9, s(60)).unwrap().into_iter().map(|delivery| {
            (second_of, String::from_utf8(delivery.payload).unwrap(), delivery.receipt.attempt())
        }));
    }
    let due: Vec<_> = due.iter().map(|(at, payload, attempt)| (*at, payload.as_str(), *attempt)).collect();
    assert_eq!(due, [(5, "failed", 2), (7, "later", 1)], "what ran out at 6 is due at 11");
}

#[test]
fn payloads_of_nothing_and_of_many_bytes_come_back_as_they_were() {
    let ((_folder, file), clock) = (file(), ManualClock::new());
    let queue = queue(&file, &clock);
    let many: Vec<u8> = (0..8 << 20).map(|n: u32| (n % 251) as u8).collect();
    queue.push(&[], s(0)).unwrap();
    queue.push(&many, s(0)).unwrap();
    let taken = queue.try_take(9, s(60)).unwrap();
    assert!(taken.len() == 2 && taken[0].payload.is_empty() && taken[1].payload == many);
}

#[test]
fn a_file_is_open_once() {
    let (_folder, file) = file();
    let store = RedbStore::open(&file).unwrap();
    assert!(RedbStore::open(&file).is_err());
    drop(store);
    assert!(RedbStore::open(&file).is_ok());
}

#[test]
fn a_file_of_another_program_is_refused_and_stays_as_it_was() {
    let (_folder, file) = file();
    let text = "a diary\n".repeat(10_000);
    fs::write(&file, &text).unwrap();
    let error = RedbStore::open(&file).unwrap_err();
    assert!(!error.to_string().is_empty());
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let (_folder, file) = file();
    let store = RedbStore::open(&file).unwrap();
    drop(store);
    let length = fs::metadata(&file).unwrap().len();
    let whole = fs::read(&file).unwrap();
    for keep in [1, 100, 4096, length / 2, length - 1] {
        fs::write(&file, &whole).unwrap();
        OpenOptions::new().write(true).open(&file).unwrap().set_len(keep).unwrap();
        assert!(RedbStore::open(&file).is_err(), "{keep} of {length} bytes");
    }
}

/// What is there before would be refused for ever after a crash. redb writes its name last.
#[test]
fn a_file_is_whole_when_it_is_there() {
    let (folder, _) = file();
    for n in 0..20 {
        let path = &folder.path().join(n.to_string());
        thread::scope(|scope| {
            let watcher = scope.spawn(move || {
                loop {
                    if let Ok(bytes) = fs::read(path) {
                        break bytes;
                    }
                }
            });
            RedbStore::open(path).unwrap();
            assert!(watcher.join().unwrap().starts_with(b"redb"), "the {n}th");
        });
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 20, "something was left lying about");
}
