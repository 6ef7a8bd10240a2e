//! A wheel and a purgatory, step by step. The drawings are the output of code, and the tests compare them.
//!
//! # A wheel
//!
//! A [`TimingWheel`](crate::TimingWheel) writes a tick as a number of eleven digits in base 64. A timer waits on the *level* of
//! the highest digit in which its deadline differs from the wheel's position, in the *slot* of that digit. That is all:
//! where a timer is follows from two numbers. When the position comes to the block of a slot, the timers in it differ in a lower
//! digit only, and move down.
//!
//! Timers at 3, 70, 75 and 5000, which is 1·64² + 14·64 + 8:
//!
//! ```
//! use ixion::{Tick, TimingWheel};
//! use std::collections::BTreeMap;
//!
//! /// The highest digit in which they differ, and the deadline's digit there.
//! fn place(position: u64, deadline: u64) -> (usize, usize) {
//!     let differs = position ^ deadline;
//!     let level = if differs == 0 { 0 } else { differs.ilog2() / 6 };
//!     (level as usize, (deadline >> (6 * level) & 63) as usize)
//! }
//!
//! /// Draws where the timers are by that rule, and asks the wheel whether it is so.
//! fn draw(wheel: &TimingWheel<u64>, deadlines: &[u64]) -> String {
//!     let position = wheel.now().as_u64();
//!     let mut slots: BTreeMap<_, Vec<u64>> = BTreeMap::new();
//!     for &deadline in deadlines {
//!         slots.entry(place(position, deadline)).or_default().push(deadline);
//!     }
//!     let mut drawing = format!("at {position}\n");
//!     for ((level, slot), deadlines) in slots {
//!         assert_eq!(wheel.occupancy().levels().nth(level).unwrap()[slot], deadlines.len());
//!         drawing += &format!("  level {level}, slot {slot:2}: {deadlines:?}\n");
//!     }
//!     drawing
//! }
//!
//! let (mut wheel, mut drawing) = (TimingWheel::new(), String::new());
//! let mut waiting = vec![5000, 75, 3, 70];
//! for &deadline in &waiting {
//!     wheel.start_timer(Tick::new(deadline), deadline);
//! }
//! for now in [0, 64, 4096, 4992, 5000] {
//!     while let Some(expired) = wheel.pop_expired(Tick::new(now)) {
//!         drawing += &format!("  expires: {}\n", expired.item);
//!         waiting.retain(|deadline| *deadline != expired.item);
//!     }
//!     drawing += &draw(&wheel, &waiting);
//! }
//!
//! assert_eq!(drawing, "\
//! at 0
//!   level 0, slot  3: [3]
//!   level 1, slot  1: [75, 70]
//!   level 2, slot  1: [5000]
//!   expires: 3
//! at 64
//!   level 0, slot  6: [70]
//!   level 0, slot 11: [75]
//!   level 2, slot  1: [5000]
//!   expires: 70
//!   expires: 75
//! at 4096
//!   level 1, slot 14: [5000]
//! at 4992
//!   level 0, slot  8: [5000]
//!   expires: 5000
//! at 5000
//! ");
//! ```
//!
//! The timer at 5000 moved twice in 5000 ticks, whatever was beside it. A timer that is stopped before its block comes
//! never moves at all: that is what the structure is for, since most timers of a server are stopped. And nobody walks from tick
//! to tick: a bit for each slot says where the next timer is, so the step from 75 to 5000 is one call.
//!
//! # A purgatory
//!
//! Three requests wait. One key has two of them, and one request has two keys. An event ends the first, a second event ends the
//! one on two keys, and the third runs out of time.
//!
//! ```
//! use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, RejectReason};
//! use std::cell::{Cell, RefCell};
//! use std::rc::Rc;
//! use std::time::Duration;
//!
//! type Log = Rc<RefCell<String>>;
//!
//! /// Waits until so many records are there.
//! struct Fetch { name: &'static str, records: Rc<Cell<u32>>, wants: u32, log: Log }
//!
//! impl DelayedOperation for Fetch {
//!     fn try_complete(&mut self) -> bool {
//!         let there = self.records.get();
//!         *self.log.borrow_mut() += &format!("    {} looks: {there} of {}\n", self.name, self.wants);
//!         there >= self.wants
//!     }
//!     fn on_complete(self, outcome: Outcome) {
//!         *self.log.borrow_mut() += &format!("    {} ends: {outcome:?}\n", self.name);
//!     }
//! }
//!
//! let (records, log) = (Rc::new(Cell::new(0)), Log::default());
//! let clock = ManualClock::new();
//! // One shard, so that the order of everything is the order of registration.
//! let fetches: Purgatory<&str, Fetch> =
//!     Purgatory::builder("Fetch").shards(1).clock(clock.clone()).build();
//! let say = |what: &str| {
//!     let (wait, entries, keys) = (fetches.len(), fetches.watched(), fetches.key_count());
//!     *log.borrow_mut() += &format!("{what}: {wait} wait, {entries} entries on {keys} keys\n");
//! };
//!
//! const WAIT: Duration = Duration::from_millis(500);
//! for (name, wants, keys) in [("a", 1, vec!["x"]), ("b", 2, vec!["x", "y"]), ("c", 9, vec!["y"])] {
//!     let fetch = Fetch { name, records: records.clone(), wants, log: log.clone() };
//!     let _ = fetches.try_complete_else_watch(fetch, WAIT, keys)?;
//! }
//! say("registered");
//! records.set(1);
//! fetches.check_and_complete("x");
//! say("x, with 1 record");
//! records.set(2);
//! fetches.check_and_complete("y");
//! say("y, with 2 records");
//! clock.advance(WAIT);
//! while fetches.expire().more {}
//! say("after 500 ms");
//!
//! assert_eq!(*log.borrow(), "    \
//!     a looks: 0 of 1
//!     a looks: 0 of 1
//!     b looks: 0 of 2
//!     b looks: 0 of 2
//!     c looks: 0 of 9
//!     c looks: 0 of 9
//! registered: 3 wait, 4 entries on 2 keys
//!     a looks: 1 of 1
//!     a ends: Satisfied
//!     b looks: 1 of 2
//! x, with 1 record: 2 wait, 3 entries on 2 keys
//!     b looks: 2 of 2
//!     b ends: Satisfied
//!     c looks: 2 of 9
//! y, with 2 records: 1 wait, 1 entries on 1 keys
//!     c ends: Expired
//! after 500 ms: 0 wait, 0 entries on 0 keys
//! ");
//! # Ok::<(), RejectReason>(())
//! ```
//!
//! What to see in it:
//!
//! * Each registration looks twice: before it waits and after it is on its keys. An event in between would else be lost.
//! * An event looks at those on its key, in order of registration, and at no other.
//! * `b` was on two keys, and when it ended it left both: the entry on `x` went with it, and the key too.
//! * An expiry does not look. The callback is told the outcome, and answers as it sees fit.
//! * Between the steps the counts are exact. Nothing is left at the end, and nothing had to be purged.
//!
//! That same code, with a [`SystemClock`](crate::SystemClock) and an [`Expirer`](crate::Expirer), is what ships: there is no
//! mock of the timer.
