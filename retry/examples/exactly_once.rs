//! An effect exactly once: a consumer that adds amounts up in a database. Its records fail and are delivered twice, it is
//! stopped again and again, and its sums are right.
//!
//! [`Leases`] alone are at least once: a record whose acknowledgement was lost comes again. So the effect and a mark that
//! it was made are written in one transaction, and what is marked is not done again. In the same transaction stands the
//! offset from which a consumer starts: below it all is finished and no mark is needed, so there are no more marks than
//! records in flight.
//!
//! ```sh
//! cargo run -p ixion-retry --example exactly_once
//! ```

use ixion::ManualClock;
use ixion_retry::{Backoff, Leases, Next};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// By account.
const SUMS: TableDefinition<'_, u64, u64> = TableDefinition::new("sums");
/// The offsets at or above the committed one whose effect was made.
const MARKS: TableDefinition<'_, u64, ()> = TableDefinition::new("marks");
const COMMITTED: TableDefinition<'_, (), u64> = TableDefinition::new("committed");

const IN_FLIGHT: usize = 8;
const VISIBILITY: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

struct Record {
    account: u64,
    amount: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    run(300, 1)
}

/// Consumes so many records, and fails if a sum is not right.
fn run(records: u64, seed: u64) -> Result<(), Box<dyn Error>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let records: Vec<Record> =
        (0..records).map(|_| Record { account: random.u64(0..3), amount: random.u64(1..100) }).collect();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("sums.redb");
    let (mut starts, mut again) = (0, 0);
    loop {
        let steps = random.usize(1..200);
        let end = consume(&Sums::open(&file)?, &records, &mut random, steps)?;
        (starts, again) = (starts + 1, again + end.again);
        if end.is_done {
            break;
        }
    }
    let mut expected = BTreeMap::new();
    for record in &records {
        *expected.entry(record.account).or_default() += record.amount;
    }
    let sums = Sums::open(&file)?.all()?;
    println!(
        "{sums:?} after {starts} starts, in which {again} records came again whose amount was in the sum"
    );
    if sums == expected { Ok(()) } else { Err(format!("they should be {expected:?}").into()) }
}

/// How a consumer has ended.
struct End {
    is_done: bool,
    /// How many deliveries had no effect, since it had been made.
    again: u32,
}

/// Consumes until all is done, or for so many steps: what is in memory is lost then, as it is in a crash.
fn consume(
    sums: &Sums,
    records: &[Record],
    random: &mut fastrand::Rng,
    steps: usize,
) -> Result<End, Box<dyn Error>> {
    // Moved by hand, so that the example is soon over: else a `SystemClock`.
    let clock = ManualClock::new();
    let mut leases = Leases::new(clock.clone(), Backoff::fixed(SECOND), IN_FLIGHT);
    let mut next = sums.committed()?;
    leases.assign(next);
    let (mut at_work, mut again) = (Vec::new(), 0);
    for _ in 0..steps {
        clock.advance(SECOND);
        while let Some(Next::Deliver(lease)) = leases.next(VISIBILITY) {
            at_work.push(lease);
        }
        while next < records.len() as u64
            && let Ok(lease) = leases.deliver(next, VISIBILITY)
        {
            at_work.push(lease);
            next += 1;
        }
        let Some(worker) = random.choice(0..at_work.len()) else { continue };
        // Of four workers one fails, and one takes its time: then its lease may run out, and another has the record, too.
        match random.u8(0..4) {
            0 => _ = leases.fail(at_work.swap_remove(worker)),
            1 => {}
            _ => {
                let lease = at_work.swap_remove(worker);
                let record = &records[usize::try_from(lease.offset())?];
                // First the transaction, then the acknowledgement. A stop between them costs one delivery more.
                again += u32::from(!sums.add(lease.offset(), record, leases.committable())?);
                leases.ack(lease);
            }
        }
        if leases.committable() == records.len() as u64 {
            return Ok(End { is_done: true, again });
        }
    }
    Ok(End { is_done: false, again })
}

/// The database.
struct Sums(Database);

impl Sums {
    fn open(file: &Path) -> Result<Self, Box<dyn Error>> {
        let database = Database::create(file)?;
        let transaction = database.begin_write()?;
        transaction.open_table(SUMS)?;
        transaction.open_table(COMMITTED)?;
        transaction.commit()?;
        Ok(Sums(database))
    }

    fn all(&self) -> Result<BTreeMap<u64, u64>, Box<dyn Error>> {
        let sums = self.0.begin_read()?.open_table(SUMS)?;
        let mut all = BTreeMap::new();
        for entry in sums.iter()? {
            let (account, sum) = entry?;
            all.insert(account.value(), sum.value());
        }
        Ok(all)
    }

    fn committed(&self) -> Result<u64, Box<dyn Error>> {
        Ok(self.0.begin_read()?.open_table(COMMITTED)?.get(())?.map_or(0, |offset| offset.value()))
    }

    /// Adds the amount of a record, unless that was done: `false`. `committable`: below it, all records are finished. Workers
    /// in threads may bring an old one, so what is committed never falls: its marks are gone.
    fn add(&self, offset: u64, record: &Record, committable: u64) -> Result<bool, Box<dyn Error>> {
        let transaction = self.0.begin_write()?;
        let is_new = {
            let mut committed = transaction.open_table(COMMITTED)?;
            let mut marks = transaction.open_table(MARKS)?;
            let start = committed.get(())?.map_or(0, |offset| offset.value());
            let committable = committable.max(start);
            committed.insert((), committable)?;
            let is_new = offset >= start && marks.insert(offset, ())?.is_none();
            if is_new {
                let mut sums = transaction.open_table(SUMS)?;
                let sum = sums.get(record.account)?.map_or(0, |sum| sum.value());
                sums.insert(record.account, sum + record.amount)?;
            }
            marks.retain(|offset, ()| offset >= committable)?;
            is_new
        };
        transaction.commit()?;
        Ok(is_new)
    }
}

#[test]
fn each_amount_is_in_the_sum_once_however_often_its_record_comes() {
    for seed in 0..2 {
        run(50, seed).unwrap();
    }
}

#[test]
fn an_old_committable_does_not_bring_back_what_has_no_mark_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let sums = Sums::open(&folder.path().join("sums.redb")).unwrap();
    let record = Record { account: 0, amount: 1 };
    for (offset, committable, is_new) in
        [(0, 0, true), (1, 1, true), (2, 0, true), (0, 0, false), (1, 1, false)]
    {
        assert_eq!(sums.add(offset, &record, committable).unwrap(), is_new, "offset {offset}");
    }
    assert_eq!((sums.committed().unwrap(), sums.all().unwrap()), (1, BTreeMap::from([(0, 3)])));
}
