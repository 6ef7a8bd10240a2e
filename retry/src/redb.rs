//! A store in a file, by redb.

#[cfg(test)]
mod cuts;
#[cfg(test)]
mod full;

use crate::books::{Index, Item, Look, State, Tables, Transact};
use crate::item::{Failure, ItemId};
use ixion::Tick;
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, Key, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, Table, TableDefinition, Value, WriteTransaction,
};
use std::error::Error;
use std::fmt;
#[cfg(unix)]
use std::fs::File;
use std::io;
use std::mem;
use std::ops::Bound;
use std::path::{self, Path};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

/// Keeps the items in a file, for one process at a time; what it has answered is on the disk.
///
/// Each step that changes something is synced before it answers (`fsync`: redb's `Durability::Immediate`). Steps that other
/// threads ask for meanwhile are made together and synced once: so throughput grows with the threads, and with the
/// items of a [`try_take`](crate::RetryQueue::try_take). They are made together or not at all: all have the same error then.
///
/// A disk that is full refuses what would need more room, and the store goes on: what fits is made. After any other error of the
/// disk nothing is made until the file is opened anew: what was written and not synced may be lost without a word.
///
/// redb was chosen and not a log-structured tree, because a queue deletes at its front, where such a tree has to go through
/// what was deleted before.
pub struct RedbStore {
    /// `None`: the disk was full. redb makes nothing more then, before it is opened again.
    database: RwLock<Option<Database>>,
    reopen: Reopen,
    group: Mutex<Group>,
}

/// Why the file could not be opened, read or written.
#[derive(Clone, Debug)]
pub struct RedbError(Arc<redb::Error>);

/// The steps that wait to be made together.
#[derive(Default)]
struct Group {
    steps: Vec<Step>,
    /// Whether a thread makes steps, or was told to.
    has_leader: bool,
}

/// A step of a thread that waits for it.
struct Step {
    /// Keeps what it returns for the thread that waits.
    make: Make,
    tell: SyncSender<Word>,
}

/// What a thread that waits is told.
enum Word {
    /// To make the steps of all who wait.
    Lead,
    /// Whether its step is on the disk.
    Made(Result<(), RedbError>),
}

/// The part of the thread that makes the steps of others. When it is over another has it, also after a panic.
struct Leading<'a>(&'a RedbStore);

type Reopen = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

type Make = Box<dyn FnOnce(&WriteTransaction) -> Result<(), RedbError> + Send>;

type Place = (u64, u64);
/// State, its time, pushed, attempt, delivery, round, and the delay in seconds and nanoseconds.
type StoredItem = (u8, u64, u64, u32, u64, u32, u64, u32);
/// Round, attempt, at, reason.
type StoredFailure = (u32, u32, u64, String);

const LAST_ID: TableDefinition<'_, (), u64> = TableDefinition::new("last id");
const ITEMS: TableDefinition<'_, u64, StoredItem> = TableDefinition::new("items");
const PAYLOADS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("payloads");
const HISTORIES: TableDefinition<'_, u64, Vec<StoredFailure>> = TableDefinition::new("histories");
const WAITING: TableDefinition<'_, Place, ()> = TableDefinition::new("waiting");
const LEASED: TableDefinition<'_, Place, ()> = TableDefinition::new("leased");
const DEAD: TableDefinition<'_, Place, ()> = TableDefinition::new("dead");

impl RedbStore {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    ///
    /// It cannot be read or written, is no file of redb's, or is open already.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RedbError> {
        let path = path::absolute(path)?;
        if !path.try_exists()? {
            make_file(&path)?;
        }
        Self::on(Database::create(&path)?, Box::new(move || Database::open(&path)))
    }

    fn on(database: Database, reopen: Reopen) -> Result<Self, RedbError> {
        let transaction = database.begin_write()?;
        // So that a reader finds them.
        transaction.open(LAST_ID)?;
        transaction.open(ITEMS)?;
        transaction.open(PAYLOADS)?;
        transaction.open(HISTORIES)?;
        for index in [WAITING, LEASED, DEAD] {
            transaction.open(index)?;
        }
        transaction.commit()?;
        Ok(RedbStore { database: RwLock::new(Some(database)), reopen, group: Mutex::default() })
    }

    fn database(&self) -> Result<MappedRwLockReadGuard<'_, Database>, RedbError> {
        loop {
            if let Ok(database) = RwLockReadGuard::try_map(self.database.read(), Option::as_ref) {
                return Ok(database);
            }
            let mut database = self.database.write();
            if database.is_none() {
                // Its close gives back by how much the step that was refused has made the file longer.
                drop((self.reopen)()?);
                *database = Some((self.reopen)()?);
            }
        }
    }

    /// Makes all steps that wait, in one transaction. Those who come meanwhile find a leader, and are the next group.
    fn lead(&self) {
        let _leading = Leading(self);
        let steps = mem::take(&mut self.group.lock().steps);
        let (makes, tells): (Vec<_>, Vec<_>) = steps.into_iter().map(|step| (step.make, step.tell)).unzip();
        let end = self.make_all(makes);
        if end.as_ref().is_err_and(RedbError::is_full) {
            *self.database.write() = None;
        }
        // A thread that waits does not go.
        tells.into_iter().for_each(|tell| _ = tell.send(Word::Made(end.clone())));
    }

    fn make_all(&self, makes: Vec<Make>) -> Result<(), RedbError> {
        let database = self.database()?;
        let transaction = database.begin_write()?;
        for make in makes {
            make(&transaction)?;
        }
        Ok(transaction.commit()?)
    }
}

/// Makes the file aside and puts it in its place: redb refuses one that was not finished when the power failed.
fn make_file(path: &Path) -> Result<(), RedbError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut aside = tempfile::Builder::new();
    aside.prefix(".redb-");
    // As any other file is made, and not for its owner alone.
    #[cfg(unix)]
    aside.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let aside = aside.tempfile_in(folder)?;
    let backend = FileBackend::new(aside.reopen()?)?;
    Database::builder().create_with_backend(backend)?.close()?;
    match aside.persist_noclobber(path) {
        // Others were faster.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made.map_err(|error| error.error)?,
    };
    // Its name, too, outlives a failure of the power.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}

impl Transact for RedbStore {
    type Error = RedbError;
    type Reading<'a> = Opened<'a, ReadTransaction>;
    type Writing<'a> = Opened<'a, WriteTransaction>;

    fn write<R: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Self::Writing<'_>) -> Result<R, RedbError> + Send + 'static,
    ) -> Result<R, RedbError> {
        let answer = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&answer);
        let make = Box::new(move |transaction: &WriteTransaction| {
            *keep.lock() = Some(step(&mut Opened(transaction))?);
            Ok(())
        });
        // There is room for both words.
        let (tell, told) = mpsc::sync_channel(2);
        let has_leader = {
            let mut group = self.group.lock();
            group.steps.push(Step { make, tell });
            mem::replace(&mut group.has_leader, true)
        };
        if !has_leader {
            self.lead();
        }
        let end = loop {
            match told.recv().expect("no step that was made with this one has panicked") {
                Word::Lead => self.lead(),
                Word::Made(end) => break end,
            }
        };
        end?;
        let answer = answer.lock().take();
        Ok(answer.expect("the step was made"))
    }

    fn read<R>(&self, step: impl FnOnce(&Self::Reading<'_>) -> Result<R, RedbError>) -> Result<R, RedbError> {
        let database = self.database()?;
        step(&Opened(&database.begin_read()?))
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let mut group = self.0.group.lock();
        match group.steps.first() {
            Some(next) => _ = next.tell.send(Word::Lead),
            None => group.has_leader = false,
        }
    }
}

/// The tables of a transaction.
#[allow(
    unreachable_pub,
    missing_debug_implementations,
    reason = "named by a public trait that nobody outside can name"
)]
pub struct Opened<'a, T>(&'a T);

/// A transaction, to read or to write.
#[allow(unreachable_pub, reason = "as above")]
pub trait Opens {
    type Table<'t, K: Key + 'static, V: Value + 'static>: ReadableTable<K, V> + ReadableTableMetadata
    where
        Self: 't;

    fn open<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'_, K, V>,
    ) -> Result<Self::Table<'_, K, V>, RedbError>;
}

impl Opens for ReadTransaction {
    type Table<'t, K: Key + 'static, V: Value + 'static> = ReadOnlyTable<K, V>;

    fn open<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'_, K, V>,
    ) -> Result<ReadOnlyTable<K, V>, RedbError> {
        Ok(self.open_table(table)?)
    }
}

impl Opens for WriteTransaction {
    type Table<'t, K: Key + 'static, V: Value + 'static> = Table<'t, K, V>;

    fn open<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'_, K, V>,
    ) -> Result<Table<'_, K, V>, RedbError> {
        Ok(self.open_table(table)?)
    }
}

impl<T: Opens> Look for Opened<'_, T> {
    type Error = RedbError;

    fn item(&self, id: ItemId) -> Result<Option<Item>, RedbError> {
        Ok(self.0.open(ITEMS)?.get(id.as_u64())?.map(|stored| from_stored(stored.value())))
    }

    fn payload(&self, id: ItemId) -> Result<Vec<u8>, RedbError> {
        Ok(self.0.open(PAYLOADS)?.get(id.as_u64())?.map(|stored| stored.value().to_vec()).unwrap_or_default())
    }

    fn history(&self, id: ItemId) -> Result<Vec<Failure>, RedbError> {
        let histories = self.0.open(HISTORIES)?;
        let Some(stored) = histories.get(id.as_u64())? else { return Ok(Vec::new()) };
        let failure = |(round, attempt, at, reason)| Failure { round, attempt, at: Tick::new(at), reason };
        Ok(stored.value().into_iter().map(failure).collect())
    }

    fn entries(
        &self,
        index: Index,
        after: Option<(Tick, ItemId)>,
        up_to: Tick,
        n: usize,
    ) -> Result<Vec<(Tick, ItemId)>, RedbError> {
        let from = after.map_or(Bound::Unbounded, |(at, id)| Bound::Excluded((at.as_u64(), id.as_u64())));
        let to = Bound::Included((up_to.as_u64(), u64::MAX));
        let mut entries = Vec::new();
        for entry in self.0.open(table(index))?.range((from, to))?.take(n) {
            let (at, id) = entry?.0.value();
            entries.push((Tick::new(at), ItemId::from_u64(id)));
        }
        Ok(entries)
    }

    fn len(&self, index: Index) -> Result<usize, RedbError> {
        Ok(usize::try_from(self.0.open(table(index))?.len()?).unwrap_or(usize::MAX))
    }
}

impl Tables for Opened<'_, WriteTransaction> {
    fn next_id(&mut self) -> Result<ItemId, RedbError> {
        let mut last = self.0.open(LAST_ID)?;
        let id = last.get(())?.map_or(0, |stored| stored.value()) + 1;
        last.insert((), id)?;
        Ok(ItemId::from_u64(id))
    }

    fn put_item(&mut self, id: ItemId, item: Item) -> Result<(), RedbError> {
        self.0.open(ITEMS)?.insert(id.as_u64(), to_stored(item))?;
        Ok(())
    }

    fn put_payload(&mut self, id: ItemId, payload: Vec<u8>) -> Result<(), RedbError> {
        self.0.open(PAYLOADS)?.insert(id.as_u64(), payload.as_slice())?;
        Ok(())
    }

    fn put_history(&mut self, id: ItemId, history: Vec<Failure>) -> Result<(), RedbError> {
        let stored = |failure: Failure| (failure.round, failure.attempt, failure.at.as_u64(), failure.reason);
        self.0.open(HISTORIES)?.insert(id.as_u64(), history.into_iter().map(stored).collect::<Vec<_>>())?;
        Ok(())
    }

    fn remove(&mut self, id: ItemId) -> Result<(), RedbError> {
        self.0.open(ITEMS)?.remove(id.as_u64())?;
        self.0.open(PAYLOADS)?.remove(id.as_u64())?;
        self.0.open(HISTORIES)?.remove(id.as_u64())?;
        Ok(())
    }

    fn enter(&mut self, index: Index, at: Tick, id: ItemId) -> Result<(), RedbError> {
        self.0.open(table(index))?.insert((at.as_u64(), id.as_u64()), ())?;
        Ok(())
    }

    fn leave(&mut self, index: Index, at: Tick, id: ItemId) -> Result<(), RedbError> {
        self.0.open(table(index))?.remove((at.as_u64(), id.as_u64()))?;
        Ok(())
    }
}

fn table(index: Index) -> TableDefinition<'static, Place, ()> {
    match index {
        Index::Waiting => WAITING,
        Index::Leased => LEASED,
        Index::Dead => DEAD,
    }
}

fn to_stored(item: Item) -> StoredItem {
    let (state, at) = match item.state {
        State::Waiting(due) => (0, due),
        State::Leased(until) => (1, until),
        State::Dead => (2, Tick::ZERO),
    };
    let delay = item.delay;
    let (seconds, nanos) = (delay.as_secs(), delay.subsec_nanos());
    (state, at.as_u64(), item.pushed.as_u64(), item.attempt, item.delivery, item.round, seconds, nanos)
}

fn from_stored((state, at, pushed, attempt, delivery, round, seconds, nanos): StoredItem) -> Item {
    let at = Tick::new(at);
    let state = match state {
        0 => State::Waiting(at),
        1 => State::Leased(at),
        _ => State::Dead,
    };
    let delay = Duration::from_secs(seconds).saturating_add(Duration::from_nanos(u64::from(nanos)));
    Item { state, pushed: Tick::new(pushed), attempt, delivery, round, delay }
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbStore").finish_non_exhaustive()
    }
}

impl RedbError {
    fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let redb::Error::Io(error) = &*self.0 else { return false };
        matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
    }
}

impl<E: Into<redb::Error>> From<E> for RedbError {
    fn from(error: E) -> Self {
        RedbError(Arc::new(error.into()))
    }
}

impl fmt::Display for RedbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for RedbError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // What it says itself is said already.
        self.0.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// What becomes of two steps that are made together, the second of which takes a name; and the name of the next.
    fn together(first: fn() -> Result<(), RedbError>) -> ([thread::Result<Result<(), RedbError>>; 2], u64) {
        let folder = tempfile::tempdir().unwrap();
        let store = &RedbStore::open(folder.path().join("queue.redb")).unwrap();
        store.group.lock().has_leader = true;
        let leading = Leading(store);
        let answers = thread::scope(|scope| {
            let first = scope.spawn(move || store.write(move |_| first()));
            let second = scope.spawn(move || store.write(|tables| tables.next_id().map(drop)));
            while store.group.lock().steps.len() < 2 {
                thread::yield_now();
            }
            drop(leading);
            [first.join(), second.join()]
        });
        (answers, store.write(|tables| tables.next_id()).unwrap().as_u64())
    }

    #[test]
    fn steps_that_are_made_together_are_all_made() {
        let (answers, next) = together(|| Ok(()));
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Ok(())))));
        assert_eq!(next, 2);
    }

    #[test]
    fn a_step_that_fails_fails_with_those_that_are_made_with_it() {
        let (answers, next) = together(|| Err(redb::Error::Io(io::ErrorKind::StorageFull.into()).into()));
        for answer in answers {
            assert_eq!(answer.unwrap().unwrap_err().to_string(), "I/O error: no storage space");
        }
        assert_eq!(next, 1, "nothing was made");
    }

    #[test]
    fn a_step_that_panics_leaves_nobody_waiting_and_the_store_as_it_was() {
        let (answers, next) = together(|| panic!("a fault in a step"));
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(next, 1, "nothing was made");
    }
}
