//! What happens in a simulation: all of it drawn from the seed.
//!
//! Each seed has likings of its own: some steps never come in its schedule, others often, on few keys or many. So rare
//! things meet each other now and then, which they would not if every schedule had a bit of everything.

use std::sync::Arc;
use std::time::Duration;

use crate::testing::purgatory_script::{Fuse, KEYS, Panics, Plan, PurgatoryScript, PurgatoryStep};

/// Where clocks start: at zero, around the boundaries of the wheel's levels, and near the end of time.
const STARTS: [u64; 9] =
    [0, 60, 4095, (1 << 30) - 70, 1 << 36, (1 << 42) - 1, 1 << 63, u64::MAX - 5000, u64::MAX - 3];
const SHARDS: [usize; 3] = [1, 2, 8];
const TICKS: [Duration; 3] = [Duration::from_millis(1), Duration::from_millis(10), Duration::from_micros(7)];
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Operations in one schedule, and calls in one operation. A drive that causes more than 1024 callbacks and drops leaves
/// some to the next call; the model does not know that, and these are fewer.
const MAX_OPERATIONS: usize = 250;
const MAX_CALLS: u64 = 2;

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below a bound that is small beside 2^64.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The kinds of steps, with how often they come: at the top, in a callback, in a look.
const KINDS: [(Kind, [u64; 3]); 20] = [
    (Kind::Register, [30, 6, 3]),
    (Kind::Event, [8, 4, 0]),
    (Kind::Set, [3, 1, 2]),
    (Kind::Clear, [6, 1, 1]),
    (Kind::Check, [4, 4, 0]),
    (Kind::CheckUpTo, [10, 4, 0]),
    (Kind::Force, [3, 3, 3]),
    (Kind::ForceKey, [1, 2, 2]),
    (Kind::Cancel, [3, 3, 3]),
    (Kind::CancelFirst, [2, 2, 2]),
    (Kind::CancelKey, [1, 1, 2]),
    (Kind::Reset, [5, 6, 3]),
    (Kind::ResetKey, [2, 3, 2]),
    (Kind::Advance, [12, 2, 1]),
    (Kind::StepBack, [2, 1, 1]),
    (Kind::Pass, [2, 1, 0]),
    (Kind::Expire, [10, 2, 2]),
    (Kind::Shutdown, [0, 1, 3]),
    (Kind::HandBack, [0, 1, 3]),
    (Kind::Flip, [2, 0, 0]),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Register,
    /// A flag is set, and its key signalled.
    Event,
    Set,
    Clear,
    Check,
    CheckUpTo,
    Force,
    ForceKey,
    Cancel,
    CancelFirst,
    CancelKey,
    Reset,
    ResetKey,
    Advance,
    StepBack,
    Pass,
    Expire,
    Shutdown,
    HandBack,
    Flip,
}

/// Draws one schedule.
struct Draw {
    random: Random,
    tick: Duration,
    shards: usize,
    /// How many keys are used.
    keys: u64,
    /// For each kind, by what its weight is multiplied.
    likings: [u64; KINDS.len()],
    /// One operation in so many waits at numbers.
    numbers: u64,
    /// One operation in so many calls back; one has a look that calls.
    calls: u64,
    /// One operation in so many panics.
    panics: u64,
    /// A shutdown in a callback ends most of what is of interest: in some schedules only.
    closes: bool,
    /// How many operations may still be made.
    left: usize,
}

/// The schedule of a seed.
pub(super) fn script(seed: u64, steps: usize) -> PurgatoryScript {
    let mut random = Random(seed);
    let (tick, shards) = (random.of(&TICKS), random.of(&SHARDS));
    let start = random.of(&STARTS);
    let capacity = random.one_in(5).then(|| random.below(12) as usize);
    let max_timeout = if random.one_in(5) { tick * (1 + random.below(5000) as u32) } else { Duration::MAX };
    let mut draw = Draw {
        tick,
        shards,
        keys: 1 + random.below(KEYS.into()),
        likings: std::array::from_fn(|_| random.of(&[0, 1, 1, 2, 4])),
        numbers: random.of(&[1, 2, 4, u64::MAX]),
        calls: 1 + random.below(5),
        panics: 4 + random.below(60),
        closes: random.one_in(6),
        left: MAX_OPERATIONS,
        random,
    };
    let crowded = draw.random.one_in(40);
    let mut steps = if crowded { draw.crowd(steps) } else { draw.steps(steps) };
    if draw.random.one_in(2) {
        let at = steps.len() - draw.random.below(1 + steps.len() as u64 / 4) as usize;
        steps.insert(at, draw.random.of(&[Kind::Shutdown, Kind::HandBack]).plain());
    }
    PurgatoryScript { start, tick, shards, capacity, max_timeout, steps }
}

impl Draw {
    fn steps(&mut self, count: usize) -> Vec<PurgatoryStep> {
        (0..count).flat_map(|_| self.step(0)).collect()
    }

    /// So many operations that passes end, and walks and batches go in steps. Nothing calls back. No clock steps back: in a
    /// drive that goes on, and with more than a thousand that are due before its present, that ends the drive.
    fn crowd(&mut self, count: usize) -> Vec<PurgatoryStep> {
        self.calls = u64::MAX;
        self.likings[KINDS.iter().position(|(kind, _)| *kind == Kind::StepBack).expect("it is a kind")] = 0;
        let mut steps = Vec::new();
        for _ in 0..count / 4 {
            if self.random.one_in(4) {
                let crowd = self.random.of(&[63, 64, 65, 130, 600, 1023, 1024, 1025, 1300]);
                self.left = self.left.max(1);
                let plan = Arc::new(self.plan(u64::MAX));
                steps.push(PurgatoryStep::Crowd(plan, crowd));
                steps.push(PurgatoryStep::Advance(self.advance()));
                steps.push(PurgatoryStep::Pass);
            }
            steps.extend(self.step(0));
        }
        steps
    }

    /// One step of the script (0), of a callback (1) or of a look (2).
    fn step(&mut self, place: usize) -> Vec<PurgatoryStep> {
        let weight = |draw: &Draw, at: usize| {
            let closing = matches!(KINDS[at].0, Kind::Shutdown | Kind::HandBack);
            KINDS[at].1[place] * if closing { u64::from(draw.closes) } else { draw.likings[at] }
        };
        let sum: u64 = (0..KINDS.len()).map(|at| weight(self, at)).sum();
        let mut drawn = self.random.below(sum.max(1));
        let at = (0..KINDS.len()).find(|&at| {
            let weight = weight(self, at);
            let found = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            found
        });
        let key = self.random.below(self.keys) as u8;
        let pick = self.random.below(1 << 20) as usize;
        vec![match at.map_or(Kind::Expire, |at| KINDS[at].0) {
            Kind::Register if self.left == 0 => PurgatoryStep::Expire,
            Kind::Register => PurgatoryStep::Register(Arc::new(self.plan(place as u64))),
            Kind::Event => return vec![PurgatoryStep::Set(key), PurgatoryStep::Check(key)],
            Kind::Set => PurgatoryStep::Set(key),
            Kind::Clear => PurgatoryStep::Clear(key),
            Kind::Check => PurgatoryStep::Check(key),
            Kind::CheckUpTo => PurgatoryStep::CheckUpTo(key, self.number()),
            Kind::Force => PurgatoryStep::Force(pick),
            Kind::ForceKey => PurgatoryStep::ForceKey(key),
            Kind::Cancel => PurgatoryStep::Cancel(pick),
            Kind::CancelFirst => PurgatoryStep::CancelFirst(key),
            Kind::CancelKey => PurgatoryStep::CancelKey(key),
            Kind::Reset => PurgatoryStep::Reset(pick, self.timeout()),
            Kind::ResetKey => PurgatoryStep::ResetKey(key, self.timeout()),
            Kind::Advance => PurgatoryStep::Advance(self.advance()),
            Kind::StepBack => PurgatoryStep::StepBack(self.advance()),
            Kind::Flip => PurgatoryStep::Flip(match self.random.below(4) {
                0 => Fuse::Deadlines,
                1 => Fuse::Panics,
                _ => Fuse::Key(key),
            }),
            plain => plain.plain(),
        }]
    }

    /// What is registered at the top (0) may call, and what that registers, perhaps.
    fn plan(&mut self, depth: u64) -> Plan {
        self.left -= 1;
        let most = if self.shards == 1 { 20 } else { 8 };
        let count = match self.random.below(12) {
            0 => 0,
            1..7 => 1,
            7..9 => 2,
            9..11 => 3,
            _ => self.random.below(most + 1),
        };
        let panics = Panics {
            look: if self.random.one_in(self.panics) { 1 + self.random.below(4) as u32 } else { 0 },
            ask: if self.random.one_in(self.panics) { 2 + self.random.below(3) as u32 } else { 0 },
            end: self.random.one_in(self.panics),
            drop: self.random.one_in(self.panics),
        };
        let mut plan = Plan {
            timeout: self.timeout(),
            keys: (0..count).map(|_| self.random.below(self.keys) as u8).collect(),
            panics,
            look: 1 + self.random.below(4) as u32,
            ..Plan::default()
        };
        if self.random.one_in(self.numbers) {
            let at = |draw: &mut Draw| (!draw.random.one_in(3)).then(|| draw.number());
            plan.at = plan.keys.iter().map(|_| at(self)).collect();
            plan.asks = (0..self.random.below(13)).map(|_| self.number()).collect();
            if self.random.one_in(2) {
                plan.asks.sort_unstable();
            }
        }
        let often = self.calls.saturating_mul(1 + 3 * depth.min(u64::MAX / 4));
        if self.random.one_in(often) {
            plan.then = (0..1 + self.random.below(MAX_CALLS)).flat_map(|_| self.step(1)).collect();
            plan.then.truncate(MAX_CALLS as usize);
        }
        if self.random.one_in(often.saturating_mul(4)) {
            plan.in_look = self.step(2);
        }
        plan
    }

    /// A number to wait at, and what an event says.
    fn number(&mut self) -> u64 {
        if self.random.one_in(12) { u64::MAX - self.random.below(2) } else { self.random.below(8) }
    }

    fn timeout(&mut self) -> Duration {
        match self.random.below(20) {
            0..2 => Duration::ZERO,
            2..4 => Duration::from_nanos(1 + self.random.below(2 * self.tick.as_nanos() as u64)),
            4..9 => self.tick * (1 + self.random.below(4) as u32),
            9..13 => self.tick * (60 + self.random.below(10) as u32),
            13..15 => self.tick * (4090 + self.random.below(10) as u32),
            15 => self.around_a_level(),
            16 => YEAR.saturating_mul(1 + self.random.below(1000) as u32),
            17 => Duration::MAX - self.random.of(&[Duration::from_nanos(1), YEAR]),
            _ => Duration::MAX,
        }
    }

    /// Not at all, within a tick, by ticks, by years, to the end of time.
    fn advance(&mut self) -> Duration {
        match self.random.below(20) {
            0..2 => Duration::ZERO,
            2..5 => Duration::from_nanos(1 + self.random.below(self.tick.as_nanos() as u64)),
            5..12 => self.tick * (1 + self.random.below(5) as u32),
            12..16 => self.tick * (55 + self.random.below(20) as u32),
            16 => self.tick * (4000 + self.random.below(200) as u32),
            17 => self.around_a_level(),
            18 => YEAR.saturating_mul(1 + self.random.below(100) as u32),
            _ if self.random.one_in(10) => Duration::MAX,
            _ => Duration::from_nanos(self.random.below(self.tick.as_nanos() as u64 * 3)),
        }
    }

    /// About a power of 64 ticks.
    fn around_a_level(&mut self) -> Duration {
        let ticks = (1u64 << (6 * self.random.below(8))) - 1 + self.random.below(3);
        let nanos = self.tick.as_nanos().saturating_mul(ticks.into());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Kind {
    /// The step of a kind that has no parts.
    fn plain(self) -> PurgatoryStep {
        match self {
            Kind::Pass => PurgatoryStep::Pass,
            Kind::Shutdown => PurgatoryStep::Shutdown,
            Kind::HandBack => PurgatoryStep::HandBack,
            _ => PurgatoryStep::Expire,
        }
    }
}
