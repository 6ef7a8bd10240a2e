//! The power fails at each write of a run. What the disk has then is made up of all that was synced and, of what was written
//! since, any sectors.

use super::RedbStore;
use crate::books::{Index, Look, Tables, Transact};
use crate::item::{Failure, Receipt};
use crate::memory::MemoryStore;
use crate::store::{New, Settlement, Store};
use ixion::Tick;
use parking_lot::Mutex;
use redb::{Builder, StorageBackend};
use std::fmt::Write;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// A disk that remembers all that was done with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<Tape>>);

#[derive(Debug, Default)]
struct Tape {
    /// What is read.
    bytes: Vec<u8>,
    deeds: Vec<Deed>,
    /// Does not sync.
    lies: bool,
    /// Why it writes nothing.
    fault: Option<io::ErrorKind>,
}

#[derive(Clone, Debug)]
enum Deed {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Sync,
    /// The store has answered a step of the run.
    Answer,
}

/// What of the writes since the last sync a cut leaves.
#[derive(Clone, Copy, Debug)]
enum Left {
    Nothing,
    All,
    /// Of each sector, as this seed has it.
    Some(u64),
}

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

impl Disk {
    fn with(bytes: Vec<u8>) -> Self {
        Disk(Arc::new(Mutex::new(Tape { bytes, ..Tape::default() })))
    }

    pub(super) fn open(&self) -> Result<RedbStore, String> {
        let disk = self.clone();
        let open = move || Builder::new().create_with_backend(disk.clone());
        let database = open().map_err(|error| error.to_string())?;
        RedbStore::on(database, Box::new(open)).map_err(|error| error.to_string())
    }

    /// From now on it writes nothing, for this reason, or all again.
    pub(super) fn fail(&self, fault: Option<io::ErrorKind>) {
        self.0.lock().fault = fault;
    }

    fn do_to(&self, deed: Deed) {
        let mut tape = self.0.lock();
        deed.apply(&mut tape.bytes, || true);
        tape.deeds.push(deed);
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap();
        let tape = self.0.lock();
        out.copy_from_slice(tape.bytes.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.do_to(Deed::SetLen(usize::try_from(len).unwrap()));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if !self.0.lock().lies {
            self.do_to(Deed::Sync);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(fault) = self.0.lock().fault {
            return Err(fault.into());
        }
        self.do_to(Deed::Write(usize::try_from(offset).unwrap(), data.to_vec()));
        Ok(())
    }
}

impl Deed {
    /// Does it, or the sectors of it that are left.
    fn apply(&self, bytes: &mut Vec<u8>, mut is_left: impl FnMut() -> bool) {
        match self {
            Deed::Write(offset, data) => {
                let mut at = *offset;
                let end = offset + data.len();
                while at < end {
                    let next = (at / SECTOR + 1) * SECTOR;
                    let upto = next.min(end);
                    // What lies past the end of a file that did not grow is lost.
                    if is_left() && upto <= bytes.len() {
                        bytes[at..upto].copy_from_slice(&data[at - offset..upto - offset]);
                    }
                    at = upto;
                }
            }
            Deed::SetLen(len) => {
                if is_left() {
                    bytes.resize(*len, 0);
                }
            }
            Deed::Sync | Deed::Answer => {}
        }
    }
}

/// Fails the power before each of the deeds and after the last, and hands out what the disk has then, and how many answers had
/// been given.
fn cuts(
    start: &[u8],
    deeds: &[Deed],
    lefts: &[Left],
    mut look: impl FnMut(Vec<u8>, usize) -> Result<(), String>,
) -> Result<(), String> {
    let (mut synced, mut answers, mut since) = (start.to_vec(), 0, 0);
    for at in 0..=deeds.len() {
        for left in lefts {
            let mut bytes = synced.clone();
            let mut random = fastrand::Rng::with_seed(match left {
                Left::Some(seed) => *seed ^ at as u64,
                Left::Nothing | Left::All => 0,
            });
            for deed in &deeds[since..at] {
                deed.apply(&mut bytes, || match left {
                    Left::Nothing => false,
                    Left::All => true,
                    Left::Some(_) => random.bool(),
                });
            }
            look(bytes, answers).map_err(|broken| format!("deed {at}, {left:?} left: {broken}"))?;
        }
        match deeds.get(at) {
            Some(Deed::Answer) => answers += 1,
            Some(Deed::Sync) => {
                deeds[since..at].iter().for_each(|deed| deed.apply(&mut synced, || true));
                since = at;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The n-th step of the run, which changes the store once at most.
fn step<S: Store>(store: &S, n: u64, hands: &mut Vec<Receipt>) -> Result<(), S::Error> {
    let mut random = fastrand::Rng::with_seed(n);
    let now = Tick::new(n);
    let failure = || Failure::new(0, 1, now, format!("step {n}"));
    match random.u8(..10) {
        0..=2 => {
            let new = |due| New { due: Some(Tick::new(n + due)), ..New::at(now) };
            let payload = vec![b'x'; random.choice([0, 10, 300, 9000]).unwrap_or(0)];
            store.push_all(&vec![(payload.as_slice(), new(random.u64(..4))); random.usize(1..4)])?;
        }
        3..=5 => {
            let taken =
                store.take(now, 1 + random.usize(..3), usize::MAX, Tick::new(n + random.u64(2..9)))?;
            hands.extend(taken.iter().map(|delivery| delivery.receipt));
        }
        6 => {
            let retry = Settlement::Retry { due: now, delay: Duration::from_millis(1), failure: failure() };
            let overdue = store.overdue(now, 3)?.into_iter();
            store.reap(overdue.map(|(receipt, _)| (receipt, retry.clone())).collect(), now)?;
        }
        7 => match store.dead_letters(None, 1)?.first() {
            Some(letter) if random.bool() => _ = store.redrive(letter.id, now)?,
            Some(letter) => _ = store.purge(letter.id)?,
            None => {}
        },
        _ => {
            let settlement = |receipt| {
                let ways =
                    [Settlement::Bury(failure()), Settlement::Extend(Tick::new(n + 9)), Settlement::Done];
                (receipt, random.choice(ways).unwrap_or(Settlement::Done))
            };
            store.settle_all(hands.drain(hands.len().saturating_sub(2)..).map(settlement).collect(), now)?;
        }
    }
    Ok(())
}

/// All that a store has, and the last name that it has given out.
fn all<S: Transact>(store: &S) -> Result<String, S::Error> {
    let mut all = store.read(|tables| {
        let mut all = String::new();
        for index in [Index::Waiting, Index::Leased, Index::Dead] {
            for (at, id) in tables.entries(index, None, Tick::MAX, usize::MAX)? {
                let (item, payload, history) = (tables.item(id)?, tables.payload(id)?, tables.history(id)?);
                let _ = writeln!(all, "{id} {index:?} {at:?} {item:?} {} {history:?}", payload.len());
            }
        }
        Ok(all)
    })?;
    let next = store.write(|tables| tables.next_id())?;
    let _ = writeln!(all, "next: {next}");
    Ok(all)
}

/// What a store has after none of the steps, after one, and so on.
fn states(steps: u64) -> Vec<String> {
    (0..=steps)
        .map(|steps| {
            let (store, mut hands) = (MemoryStore::new(), Vec::new());
            (0..steps).for_each(|n| step(&store, n, &mut hands).unwrap_or_else(|never| match never {}));
            all(&store).unwrap_or_else(|never| match never {})
        })
        .collect()
}

/// Opens what a cut has left: it must be what all steps that were answered have made of it, or these and the next. Returns what
/// the opening has done.
fn look(bytes: Vec<u8>, answers: usize, states: &[String]) -> Result<Vec<Deed>, String> {
    let disk = Disk::with(bytes);
    let store = disk.open()?;
    let opening = disk.0.lock().deeds.clone();
    let found = all(&store).map_err(|error| error.to_string())?;
    let promised = &states[answers..states.len().min(answers + 2)];
    if promised.contains(&found) {
        Ok(opening)
    } else {
        Err(format!("after {answers} answers\n{found}\ninstead of\n{}", promised.join("\nor\n")))
    }
}

/// Lets the power fail at each deed of a run of so many steps; and again at each of the opening after every `again`-th of these
/// cuts. Returns how often it has failed.
fn run(steps: u64, again: usize, lies: bool, lefts: &[Left]) -> Result<usize, String> {
    let states = states(steps);
    let disk = Disk::default();
    // A file that is there: how one is made is for another test.
    drop(disk.open()?);
    let start = disk.0.lock().bytes.clone();
    *disk.0.lock() = Tape { bytes: start.clone(), lies, ..Tape::default() };
    let (store, mut hands) = (disk.open()?, Vec::new());
    for n in 0..steps {
        step(&store, n, &mut hands).map_err(|error| error.to_string())?;
        disk.do_to(Deed::Answer);
    }
    drop(store);
    let deeds = mem::take(&mut disk.0.lock().deeds);
    let mut count = 0;
    cuts(&start, &deeds, lefts, |bytes, answers| {
        count += 1;
        let opening = look(bytes.clone(), answers, &states)?;
        if count % again > 0 {
            return Ok(());
        }
        cuts(&bytes, &opening, lefts, |bytes, _| {
            count += 1;
            look(bytes, answers, &states).map(drop)
        })
    })?;
    Ok(count)
}

#[test]
fn whatever_a_power_cut_leaves_of_a_run_is_what_was_answered() {
    // Checksums take thirty times as long without the optimiser.
    let (steps, again) = if cfg!(debug_assertions) { (5, 101) } else { (60, 29) };
    let lefts = [Left::Nothing, Left::All, Left::Some(1), Left::Some(2), Left::Some(3)];
    let cuts = run(steps, again, false, &lefts).unwrap();
    assert!(cuts as u64 > 50 * steps, "{cuts}");
}

/// Shows that a broken promise is seen.
#[test]
fn a_disk_that_does_not_sync_forgets_what_was_answered() {
    let broken = run(6, usize::MAX, true, &[Left::Nothing]).unwrap_err();
    assert!(broken.contains("instead of"), "{broken}");
}
