//! The real side of a script: a purgatory, and operations, keys and hooks that tell all and fail on demand.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::testing::purgatory_model::first;
use crate::testing::purgatory_script::{Event, Fuse, KEYS, Plan, PurgatoryScript, PurgatoryStep};
use crate::testing::sim::Fault;
use crate::{
    Cancelled, Clock, DelayedOperation, Equivalent, ManualClock, OperationId, Outcome, PanicPlace, Purgatory,
    Registration, Resolution, Watch,
};

/// The seed of the hash of the keys.
const SEED: u64 = 7;

/// Where a step is taken from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    Script,
    Callback,
    Look,
}

/// How many panics there were in looks, callbacks, destructors of keys, the hook for deadlines, and that for panics.
pub(super) type InPlaces = [u64; 5];
const OF_THE_HOOK_FOR_PANICS: usize = 4;

/// What the hooks know and do. They must be `Send`, so this is the thread's.
#[derive(Clone, Copy, Default)]
struct Hooks {
    rung: u64,
    thrown: InPlaces,
    told: InPlaces,
    deadlines_panic: bool,
    panics_panic: bool,
}

thread_local! {
    static HOOKS: Cell<Hooks> = Cell::default();
}

fn note(change: impl FnOnce(&mut Hooks)) {
    let mut hooks = HOOKS.get();
    change(&mut hooks);
    HOOKS.set(hooks);
}

/// Panics without a message on the screen, and takes note of it.
fn throw(place: usize) -> ! {
    note(|hooks| hooks.thrown[place] += 1);
    std::panic::resume_unwind(Box::new("planted"));
}

fn index(place: PanicPlace) -> usize {
    match place {
        PanicPlace::Look => 0,
        PanicPlace::Callback => 1,
        PanicPlace::KeyDrop => 2,
        PanicPlace::Hook => 3,
        PanicPlace::Clock => unreachable!("the clock of a script does not panic"),
        PanicPlace::Executor => unreachable!("no world has an executor"),
    }
}

pub(super) struct World {
    clock: ManualClock,
    purgatory: RefCell<Option<Rc<Purgatory<Key, Probe>>>>,
    flags: Cell<[bool; KEYS as usize]>,
    /// Bit by bit, the keys whose destructor panics.
    fuses: Cell<u32>,
    events: RefCell<Vec<Event>>,
    ids: RefCell<Vec<Option<OperationId>>>,
    operations: Cell<usize>,
    keys: Cell<usize>,
    place: Cell<Place>,
    covered: RefCell<BTreeMap<(Place, &'static str), u64>>,
    fault: Option<Fault>,
    /// How often the fault could have struck.
    chances: Cell<u32>,
    kept: RefCell<Vec<Probe>>,
}

/// A key.
pub(super) struct Key(u8, Rc<World>);

impl Key {
    fn new(key: u8, world: &Rc<World>) -> Self {
        world.keys.set(world.keys.get() + 1);
        Key(key % KEYS, Rc::clone(world))
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Equivalent<Key> for u8 {
    fn equivalent(&self, key: &Key) -> bool {
        *self == key.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.1.keys.set(self.1.keys.get() - 1);
        if self.1.fuses.get() >> self.0 & 1 == 1 && !std::thread::panicking() {
            throw(index(PanicPlace::KeyDrop));
        }
    }
}

/// An operation.
pub(super) struct Probe {
    number: usize,
    plan: Arc<Plan>,
    looks: u32,
    /// Whether its destructor panics.
    explosive: bool,
    world: Rc<World>,
}

impl DelayedOperation for Probe {
    fn try_complete(&mut self) -> bool {
        let Probe { number, plan, world, .. } = self;
        self.looks += 1;
        world.tell(Event::Looked(*number));
        if self.looks == plan.look {
            world.perform_in(Place::Look, &plan.in_look);
        }
        if self.looks == plan.panics.look {
            throw(index(PanicPlace::Look));
        }
        world.flags.get()[first(plan)]
    }

    fn next_progress(&self, watch: usize) -> Option<u64> {
        if self.looks == self.plan.panics.ask {
            self.world.cover("a number was not to be had");
            throw(index(PanicPlace::Look));
        }
        self.plan.asks.get(self.looks as usize - 1 + watch).copied()
    }

    fn on_complete(self, outcome: Outcome) {
        let world = Rc::clone(&self.world);
        if !world.strikes(Fault::LostEnd) {
            world.tell(Event::Ended(self.number, outcome));
        }
        if world.strikes(Fault::SecondEnd) {
            world.tell(Event::Ended(self.number, outcome));
        }
        world.perform_in(Place::Callback, &self.plan.then);
        if self.plan.panics.end {
            world.cover("a callback panicked");
            throw(index(PanicPlace::Callback));
        }
        if world.strikes(Fault::KeptOperation) {
            world.kept.borrow_mut().push(self);
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.world.operations.set(self.world.operations.get() - 1);
        if self.explosive && !std::thread::panicking() {
            self.world.cover("a destructor panicked");
            throw(index(PanicPlace::Callback));
        }
    }
}

impl World {
    pub(super) fn new(script: &PurgatoryScript, fault: Option<Fault>) -> Rc<Self> {
        HOOKS.set(Hooks::default());
        let clock = ManualClock::with_resolution(Resolution::new(script.tick));
        clock.advance_to(script.start());
        let mut builder = Purgatory::builder("script")
            .measure_waits(true)
            .clock(Skewed(clock.clone(), fault))
            .shards(script.shards)
            .hash_seed(SEED)
            .max_timeout(script.max_timeout)
            .on_panic(move |caught| {
                if fault != Some(Fault::UntoldPanic) {
                    note(|hooks| hooks.told[index(caught.place())] += 1);
                }
                if HOOKS.get().panics_panic {
                    throw(OF_THE_HOOK_FOR_PANICS);
                }
            })
            .on_earlier_deadline(|| {
                note(|hooks| hooks.rung += 1);
                if HOOKS.get().deadlines_panic {
                    throw(index(PanicPlace::Hook));
                }
            });
        if let Some(capacity) = script.capacity {
            builder = builder.capacity(capacity);
        }
        Rc::new(World {
            clock,
            purgatory: RefCell::new(Some(Rc::new(builder.build()))),
            flags: Cell::default(),
            fuses: Cell::default(),
            events: RefCell::default(),
            ids: RefCell::default(),
            operations: Cell::default(),
            keys: Cell::default(),
            place: Cell::new(Place::Script),
            covered: RefCell::default(),
            fault,
            chances: Cell::default(),
            kept: RefCell::default(),
        })
    }

    pub(super) fn perform(self: &Rc<Self>, step: &PurgatoryStep) {
        let Some(real) = self.purgatory.borrow().clone() else { return };
        self.cover(step.kind());
        step.traits().into_iter().flatten().for_each(|kind| self.cover(kind));
        let event = match *step {
            PurgatoryStep::Register(ref plan) => return self.register(&real, plan),
            PurgatoryStep::Crowd(ref plan, count) => {
                return (0..count).for_each(|_| self.register(&real, plan));
            }
            PurgatoryStep::Set(key) => return self.set(key, true),
            PurgatoryStep::Clear(key) => return self.set(key, false),
            PurgatoryStep::Check(_) if self.strikes(Fault::LostEvent) => Event::Count(0),
            PurgatoryStep::Check(key) => Event::Count(real.check_and_complete(&(key % KEYS))),
            PurgatoryStep::CheckUpTo(key, progress) => {
                let progress = if self.strikes(Fault::ShortProgress) { progress / 2 } else { progress };
                Event::Count(real.check_and_complete_up_to(&(key % KEYS), progress))
            }
            PurgatoryStep::Force(pick) => {
                Event::Count(usize::from(self.pick(pick).is_some_and(|id| real.force_complete(id))))
            }
            PurgatoryStep::ForceKey(key) => Event::Count(real.force_complete_for_key(&(key % KEYS))),
            PurgatoryStep::Cancel(pick) => {
                cancelled(self.pick(pick).map_or(Cancelled::Gone, |id| real.cancel(id)))
            }
            PurgatoryStep::CancelFirst(key) => cancelled(real.cancel_first(&(key % KEYS))),
            PurgatoryStep::CancelKey(key) => {
                let back = real.cancel_for_key(&(key % KEYS));
                Event::Back(disarm(back.taken), back.busy)
            }
            PurgatoryStep::Reset(pick, timeout) => {
                let reset = |id| self.strikes(Fault::LostReset) || real.reset_timeout(id, timeout);
                Event::Count(usize::from(self.pick(pick).is_some_and(reset)))
            }
            PurgatoryStep::ResetKey(key, timeout) => {
                Event::Count(real.reset_timeout_for_key(&(key % KEYS), timeout))
            }
            PurgatoryStep::Advance(by) => return self.clock.advance(by),
            PurgatoryStep::StepBack(by) => {
                return self.clock.advance_to(self.clock.elapsed().saturating_sub(by));
            }
            PurgatoryStep::Pass => {
                self.pass(&real);
                return;
            }
            PurgatoryStep::Expire => {
                while self.pass(&real) {}
                return;
            }
            PurgatoryStep::Shutdown => Event::Count(real.shutdown()),
            PurgatoryStep::HandBack => {
                let back = real.shutdown_and_hand_back();
                let mut numbers = disarm(back.taken);
                numbers.sort_unstable();
                Event::Back(numbers, back.busy)
            }
            PurgatoryStep::Flip(fuse) => return self.flip(fuse),
        };
        self.tell(event);
    }

    fn cover(&self, kind: &'static str) {
        *self.covered.borrow_mut().entry((self.place.get(), kind)).or_default() += 1;
    }

    fn tell(&self, event: Event) {
        if let Some(kind) = event.kind() {
            self.cover(kind);
        }
        self.events.borrow_mut().push(event);
    }

    fn perform_in(self: &Rc<Self>, place: Place, steps: &[PurgatoryStep]) {
        let before = self.place.replace(place);
        steps.iter().for_each(|step| self.perform(step));
        self.place.set(before);
    }

    fn register(self: &Rc<Self>, real: &Purgatory<Key, Probe>, plan: &Arc<Plan>) {
        let number = self.ids.borrow().len();
        self.ids.borrow_mut().push(None);
        self.operations.set(self.operations.get() + 1);
        let op = Probe {
            number,
            plan: Arc::clone(plan),
            looks: 0,
            explosive: plan.panics.drop,
            world: Rc::clone(self),
        };
        let watches = plan.keys.iter().enumerate().map(|(nth, key)| {
            let key = Key::new(*key, self);
            match plan.at.get(nth) {
                Some(Some(number)) => Watch::at(key, *number),
                _ => Watch::any(key),
            }
        });
        let event = match real.try_complete_else_watch_at(op, plan.timeout, watches) {
            Ok(Registration::Completed(outcome)) => Event::Accepted(number, Some(outcome)),
            Ok(Registration::Watched(id)) => {
                self.ids.borrow_mut()[number] = Some(id);
                if self.strikes(Fault::ForcedUnseen) {
                    real.force_complete(id);
                }
                Event::Accepted(number, None)
            }
            Err(rejected) => {
                disarm(vec![rejected.op]);
                Event::Rejected(number, rejected.reason)
            }
        };
        self.tell(event);
    }

    fn pass(&self, real: &Purgatory<Key, Probe>) -> bool {
        let pass = real.expire();
        self.tell(Event::Pass { expired: pass.expired, more: pass.more, next: pass.next });
        pass.more
    }

    fn set(&self, key: u8, to: bool) {
        let mut flags = self.flags.get();
        flags[usize::from(key % KEYS)] = to;
        self.flags.set(flags);
    }

    fn flip(&self, fuse: Fuse) {
        match fuse {
            Fuse::Key(key) => self.fuses.set(self.fuses.get() ^ 1 << (key % KEYS)),
            Fuse::Deadlines => note(|hooks| hooks.deadlines_panic ^= true),
            Fuse::Panics => note(|hooks| hooks.panics_panic ^= true),
        }
    }

    fn pick(&self, pick: usize) -> Option<OperationId> {
        let ids = self.ids.borrow();
        ids[pick.checked_rem(ids.len())?]
    }

    /// Whether a planted fault strikes now: at every fifth chance.
    fn strikes(&self, fault: Fault) -> bool {
        if self.fault != Some(fault) {
            return false;
        }
        self.chances.set(self.chances.get() + 1);
        self.chances.get().is_multiple_of(5)
    }

    pub(super) fn purgatory(&self) -> Rc<Purgatory<Key, Probe>> {
        Rc::clone(self.purgatory.borrow().as_ref().expect("it lives as long as the script runs"))
    }

    /// Callbacks find none from here on.
    pub(super) fn drop_purgatory(&self) {
        let purgatory = self.purgatory.borrow_mut().take();
        drop(purgatory);
    }

    pub(super) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.borrow_mut())
    }

    /// After how many expiries those of the latest passes ended that left more.
    pub(super) fn cuts(&self) -> VecDeque<usize> {
        let cut = |event: &Event| match *event {
            Event::Pass { expired, more: true, .. } => Some(expired),
            _ => None,
        };
        self.events.borrow().iter().filter_map(cut).collect()
    }

    /// How many operations and keys there are.
    pub(super) fn alive(&self) -> (usize, usize) {
        (self.operations.get(), self.keys.get())
    }

    pub(super) fn covered(&self) -> BTreeMap<(Place, &'static str), u64> {
        self.covered.take()
    }

    /// How often the hook for earlier deadlines was called.
    pub(super) fn rung(&self) -> u64 {
        HOOKS.get().rung
    }

    pub(super) fn thrown(&self) -> InPlaces {
        HOOKS.get().thrown
    }

    /// Of each panic the hook is told, but of its own.
    pub(super) fn told(&self) -> InPlaces {
        let Hooks { mut told, thrown, .. } = HOOKS.get();
        told[OF_THE_HOOK_FOR_PANICS] = thrown[OF_THE_HOOK_FOR_PANICS];
        told
    }
}

/// The numbers of operations that came back. They are dropped in here, and harmless.
fn disarm(mut ops: Vec<Probe>) -> Vec<usize> {
    ops.iter_mut().for_each(|op| op.explosive = false);
    ops.iter().map(|op| op.number).collect()
}

fn cancelled(cancelled: Cancelled<Probe>) -> Event {
    let busy = usize::from(cancelled == Cancelled::Busy);
    Event::Back(disarm(cancelled.taken().into_iter().collect()), busy)
}

impl PartialEq for Probe {
    fn eq(&self, other: &Probe) -> bool {
        self.number == other.number
    }
}

/// A clock that a fault may make fast or slow by a tick.
struct Skewed(ManualClock, Option<Fault>);

impl Clock for Skewed {
    fn elapsed(&self) -> Duration {
        let (elapsed, tick) = (self.0.elapsed(), self.resolution().tick());
        match self.1 {
            Some(Fault::SlowClock) => elapsed.saturating_sub(tick),
            Some(Fault::FastClock) => elapsed.saturating_add(tick),
            _ => elapsed,
        }
    }

    fn resolution(&self) -> Resolution {
        self.0.resolution()
    }
}

/// The shard of each key, by the order in which they are served; operations without keys are at home in the first.
///
/// Within a tick a drive goes from shard to shard, and in each by registration. So if all are registered in one order and
/// then in the other, a shard is over when all that it has begun with have come again.
pub(super) fn homes(shards: usize) -> Vec<usize> {
    struct Mark(Option<u8>, Rc<RefCell<Vec<Option<u8>>>>);
    impl DelayedOperation for Mark {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, _: Outcome) {
            self.1.borrow_mut().push(self.0);
        }
    }
    let marks = Rc::default();
    let purgatory: Purgatory<u8, Mark> =
        Purgatory::builder("marks").clock(ManualClock::new()).shards(shards).hash_seed(SEED).build();
    let there = || std::iter::once(None).chain((0..KEYS).map(Some));
    let back = (0..KEYS).rev().map(Some).chain(std::iter::once(None));
    for mark in there().chain(back) {
        let _ = purgatory.try_complete_else_watch(Mark(mark, Rc::clone(&marks)), Duration::ZERO, mark);
    }
    while purgatory.expire().more {}
    let (mut homes, mut shard, mut begun) = (vec![0; usize::from(KEYS)], 0, Vec::new());
    for mark in marks.take() {
        if begun.last() == Some(&mark) {
            begun.pop();
        } else {
            begun.push(mark);
        }
        if let Some(key) = mark {
            homes[usize::from(key)] = shard;
        }
        shard += usize::from(begun.is_empty());
    }
    homes
}
