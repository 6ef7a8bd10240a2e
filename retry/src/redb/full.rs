//! A disk that refuses to write.

use super::RedbStore;
use super::cuts::Disk;
use crate::store::{New, Store};
use ixion::Tick;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::thread;

const NOW: Tick = Tick::new(5);

fn push(store: &RedbStore) -> Result<u64, String> {
    store.push(b"x", New::at(NOW)).map(|id| id.as_u64()).map_err(|error| error.to_string())
}

#[test]
fn a_disk_that_was_full_makes_the_next_step() {
    for fault in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge] {
        let disk = Disk::default();
        let store = disk.open().unwrap();
        assert_eq!(push(&store), Ok(1));
        disk.fail(Some(fault));
        let refused = push(&store).unwrap_err();
        assert!(refused.contains(&fault.to_string()), "{refused}");
        // It cannot be opened again now, and says why.
        assert!(push(&store).unwrap_err().contains(&fault.to_string()));
        disk.fail(None);
        assert_eq!(push(&store), Ok(2), "nothing was made");
        assert_eq!(store.take(NOW, 9, 9, NOW).unwrap().len(), 2);
    }
}

#[test]
fn threads_go_on_when_the_disk_has_room_again() {
    const EACH: usize = 20;
    let disk = Disk::default();
    let store = &disk.open().unwrap();
    let pushed: BTreeSet<u64> = thread::scope(|scope| {
        let work = || (0..100_000).filter_map(|_| push(store).ok()).take(EACH).collect::<Vec<_>>();
        let threads = [(); 4].map(|()| scope.spawn(work));
        while threads.iter().any(|thread| !thread.is_finished()) {
            disk.fail(Some(ErrorKind::StorageFull));
            thread::yield_now();
            disk.fail(None);
            thread::yield_now();
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(pushed.len(), 4 * EACH);
    let taken = store.take(NOW, usize::MAX, usize::MAX, NOW).unwrap();
    let taken: BTreeSet<u64> = taken.iter().map(|delivery| delivery.receipt.id().as_u64()).collect();
    assert!(taken.is_superset(&pushed), "{pushed:?} {taken:?}");
}

/// After a sync that has failed the system may have forgotten what was written, and tell nobody a second time.
#[test]
fn after_any_other_error_of_the_disk_nothing_is_made() {
    let disk = Disk::default();
    let store = disk.open().unwrap();
    disk.fail(Some(ErrorKind::Other));
    push(&store).unwrap_err();
    disk.fail(None);
    for _ in 0..2 {
        let refused = push(&store).unwrap_err();
        assert!(refused.contains("Previous I/O error"), "{refused}");
    }
    drop(store);
    assert_eq!(push(&disk.open().unwrap()), Ok(1));
}

#[test]
fn a_file_is_opened_again_though_it_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open(folder.path().join("queue.redb")).unwrap();
    assert_eq!(push(&store), Ok(1));
    *store.database.write() = None;
    assert_eq!((push(&store), store.counts().unwrap().waiting), (Ok(2), 2));
}
