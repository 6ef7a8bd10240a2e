//! Each method: how long it takes, which locks it takes and for how long, and who runs your code.
//!
//! *k* is the number of keys of an operation, *w* the number of operations on a key, *s* the number of shards, *n* the number
//! of watches at a number in a shard. *A hold* is one taking of one shard's lock. No hold takes more than 2048 small steps, some
//! ten microseconds, whatever is due and however many wait (`purgatory::tests::no_hold_takes_more_steps_than_its_bound_with_a_million_timers_in_one_bucket`);
//! `benches/pauses.rs` times them, and says how it is built for that.
//!
//! No two shards are ever locked at once, and no code of yours runs in a hold, but for `K`'s `Eq` (and
//! [`Equivalent`](crate::Equivalent)), which is all that compares keys, and its `Clone` in
//! [`hottest_keys`](crate::Purgatory::hottest_keys).
//!
//! # `Purgatory`
//!
//! | method | complexity | locks | your code, on the caller's thread |
//! |---|---|---|---|
//! | [`try_complete_else_watch`](crate::Purgatory::try_complete_else_watch), met at once | O(1), no allocation | none | a look, the callback |
//! | the same, when it waits | O(k) | one hold for those of the first 16 keys that live in the first one's shard, one for each other key | two looks or more, `keys`, `Hash` and `Eq` of `K` |
//! | [`try_complete_else_watch_at`](crate::Purgatory::try_complete_else_watch_at) | O(k log n) | the same | the same, and [`next_progress`](crate::DelayedOperation::next_progress) |
//! | [`check_and_complete`](crate::Purgatory::check_and_complete) | w looks | one hold for every 64 on the key; see *an end* | w looks, the callbacks of those that are met |
//! | the same, nobody on the key | O(1), no allocation | one hold | `Hash` and `Eq` |
//! | [`check_and_complete_up_to`](crate::Purgatory::check_and_complete_up_to) | O(log n), and a look for each that is reached | the same | a look for each that is reached |
//! | [`try_complete`](crate::Purgatory::try_complete) | a look | one hold to find it; *an end* | a look, the callback |
//! | [`force_complete`](crate::Purgatory::force_complete) | O(k) | one hold to find it; *an end* | the callback, unless another thread is inside |
//! | [`force_complete_for_key`](crate::Purgatory::force_complete_for_key) | O(k) for each | one hold for every 64; *an end* for each | their callbacks |
//! | [`cancel`](crate::Purgatory::cancel), [`cancel_first`](crate::Purgatory::cancel_first), [`cancel_for_key`](crate::Purgatory::cancel_for_key) | as forcing | as forcing | none |
//! | [`reset_timeout`](crate::Purgatory::reset_timeout) | O(1) | two holds | none |
//! | [`reset_timeout_for_key`](crate::Purgatory::reset_timeout_for_key) | O(w) | one hold for every 64, and one for each | none |
//! | [`contains_key`](crate::Purgatory::contains_key), [`watcher_count`](crate::Purgatory::watcher_count) | O(1) | one hold | `Hash` and `Eq` |
//! | [`watchers`](crate::Purgatory::watchers) | O(1): 128 at most | one hold for the key, one for each | `Hash` and `Eq` |
//! | [`len`](crate::Purgatory::len), [`is_empty`](crate::Purgatory::is_empty), [`watched`](crate::Purgatory::watched), [`key_count`](crate::Purgatory::key_count), [`stats`](crate::Purgatory::stats) | O(s) | s holds, one after the other | none |
//! | [`waits`](crate::Purgatory::waits) | O(s) | the same | none |
//! | [`hottest_keys`](crate::Purgatory::hottest_keys) | O(keys) | one hold for every 256 keys, one for each that is returned | **`Clone` of `K`, in a hold** |
//! | [`occupancy`](crate::Purgatory::occupancy) | O(operations / 64) | one hold for every 1024 chunks of 64 | none |
//! | [`lateness`](crate::Purgatory::lateness) | O(1) | one lock of the drives' | none |
//! | [`name`](crate::Purgatory::name), [`now`](crate::Purgatory::now), [`time_to`](crate::Purgatory::time_to) | O(1) | none | the clock |
//! | [`expire`](crate::Purgatory::expire), nothing due | O(s) | 2 s holds | none |
//! | the same, with something due | O(s), and O(k) for each; about 1024 at most | one hold for every 64 that are due or 128 that move down; *an end* for each | the callbacks of what has expired |
//! | [`next_expiration`](crate::Purgatory::next_expiration), [`time_to_next`](crate::Purgatory::time_to_next) | O(s) | s holds | none |
//! | [`shutdown`](crate::Purgatory::shutdown) | O(k) for each that waits | two holds a shard, whatever is in it; *an end* for each | all callbacks |
//! | [`shutdown_and_hand_back`](crate::Purgatory::shutdown_and_hand_back) | the same | the same | none |
//! | [`is_shutdown`](crate::Purgatory::is_shutdown) | O(1) | none | none |
//!
//! *An end* of an operation is one hold of its home's lock, and one more for each group of keys that live in another shard, 16 at
//! the most. It allocates nothing. Its callback runs after that, with no lock.
//!
//! To this comes, now and then, a hold in which memory that is no longer needed is taken away, to be freed without the lock.
//!
//! A capacity is one more atomic counter, which all threads write. With [`callbacks_on`](crate::Builder::callbacks_on) callbacks run
//! where the executor runs them, for an allocation each.
//!
//! [`wait`](../../purgatory/struct.Purgatory.html#method.wait) (feature `async`) is a registration and a look for each poll; its signal is a look that wakes the task.
//!
//! # On which thread
//!
//! | what | runs on | and should not |
//! |---|---|---|
//! | the first look, `keys` | the thread that registers | signal a key (the look) |
//! | the other looks | the thread that signals; if another thread is inside the operation, that one | signal a key |
//! | [`on_complete`](crate::DelayedOperation::on_complete) | the thread that decided; if another is inside the operation, that one; for an expiry the driver | block for long: it may call everything |
//! | the drop of an operation that was handed back | whoever was given it | |
//! | the drop of a key | the thread that took its last watch out, or registered a key that was there already | panic: it is caught and counted |
//! | [`Clock::elapsed`](crate::Clock::elapsed) | every thread that registers with a timeout, resets or drives | block |
//! | the hook [`on_panic`](crate::Builder::on_panic) | the thread that caught the panic, in the middle of a call | signal |
//! | the hook [`on_earlier_deadline`](crate::Builder::on_earlier_deadline) | the thread that registers or resets, in the middle of the call | register |
//! | a job for [`defer`](crate::defer) | the thread that gave it, when its outermost call is about to return | block for long |
//! | a waker of a [`wait`](../../purgatory/struct.Purgatory.html#method.wait) | the same, after the signal | block |
//!
//! A call that is made *in* a callback decides and counts at once. What it causes runs when the callback has returned, in
//! order, before the outermost call of the thread returns.
//!
//! # `TimingWheel`
//!
//! One thread, no lock.
//!
//! | method | complexity |
//! |---|---|
//! | [`start_timer`](crate::TimingWheel::start_timer), [`stop_timer`](crate::TimingWheel::stop_timer), [`restart_timer`](crate::TimingWheel::restart_timer) | O(1): two chunks of 64 timers at most |
//! | [`pop_expired`](crate::TimingWheel::pop_expired), [`peek_expired`](crate::TimingWheel::peek_expired) | O(1) for each, and ten moves in its life at most; one call may move a whole bucket |
//! | [`pop_expired_within`](crate::TimingWheel::pop_expired_within) | the same, within a budget |
//! | [`next_expiration`](crate::TimingWheel::next_expiration) | O(1) as a rule; O(timers of a bucket) where the earliest was stopped |
//! | [`get`](crate::TimingWheel::get), [`get_mut`](crate::TimingWheel::get_mut), [`deadline`](crate::TimingWheel::deadline), [`now`](crate::TimingWheel::now), [`len`](crate::TimingWheel::len) | O(1) |
//! | [`heap_size`](crate::TimingWheel::heap_size) | O(chunks) |
//! | [`into_items`](crate::TimingWheel::into_items) | O(timers) |
//!
//! A timer whose deadline had passed when it was started is in an ordered map instead, O(log l) with *l* of them.
//!
//! # `Expirer`
//!
//! | method | complexity | locks |
//! |---|---|---|
//! | [`spawn`](crate::Expirer::spawn) | starts a thread | none |
//! | [`drive`](crate::Expirer::drive) | O(purgatories) | the roster; under it the purgatory's list of bells |
//! | drop | joins the thread, which ends after the callback that it is in | |
//! | [`detach`](crate::Expirer::detach) | lets the thread end by itself | none |
//!
//! A turn of the thread is a pass of each purgatory and then a search for the earliest deadline: 2 s holds for each purgatory.
//! With nothing due there are no turns.
//!
//! # Measured
//!
//! `ci/bench.sh` prints what these take on your machine, beside rivals; `benches/RATIOS.md` is what it printed last.
//! `ci/counts.sh` counts the instructions of the hot paths, and holds them to `tests/counts/limits.txt`.
