//! How it works, and why it is so: the protocol, the order of the locks, each race and its answer, and what was tried
//! and rejected. There is no code in here.
//!
//! # The layers
//!
//! Calls go down, results come back as values. There are no back pointers, and nothing below calls anything above,
//! but for the user's own hooks and executor. `tests/tidy.rs` reads the `use` lines and says no.
//!
//! ```text
//!  front ends  future · kafka · telemetry · testing   the public interface only; future has a lock
//!  the thread  expirer             std::thread lives only here
//!  shared      purgatory ─▶ watch lists, operation ─▶ alarm, trampoline, metrics
//!  seams       clock · sync · trace    Instant::now only in clock; locks, atomics only in sync; tracing in trace
//!  pure        wheel ─▶ tick       no clock, lock, atomic or thread
//!  below       fault · steps       what models plant and tests count; nothing in a build
//! ```
//!
//! # The protocol
//!
//! **A word for the decision, a thread for the deed.** What waits sits in a cell. Its atomic word has the bits BUSY and
//! LOOK and the outcome; round the operation itself is a mutex, for which nobody ever waits, since without `unsafe` there is
//! no other way to lend it out. A compare-exchange from none decides an outcome. One caller wins it, and all others are told
//! that they came too late. To have set BUSY is to *hold* the operation, and the holder acts: it takes the operation out,
//! unlinks it from all lists and calls back. Nobody else may unlink. The thread that registers holds from the beginning and
//! until its last key is in a list: so no list gets an entry of what is unlinked already.
//!
//! **Nobody waits.** Who wants a look takes the hold of an operation that is free, `compare_exchange(0, BUSY)`, and owes it the
//! look. Where that fails it does `fetch_or(BUSY | LOOK)`: the holder will find the mark, or has just let go, and the hold
//! is taken after all, and the mark back: it is the look that is owed. The holder:
//!
//! 1. claims, unless it owes a look from the start: `fetch_and(!LOOK)`. Decided? Then it acts, and is done.
//! 2. was LOOK set, or is a look owed? Then it looks; if the condition is met it decides, and acts.
//! 3. lets go: `compare_exchange(BUSY, 0)`. If that fails, something has come meanwhile: back to 1.
//!
//! After sixteen rounds it hands the operation on, BUSY and all, to a queue of the home shard, and asks for a drive.
//! Every call by a key of that shard, and every drive, goes on with what is in the queue.
//!
//! ```text
//!             mark: takes the hold             met, or decided
//!  ┌─────────┐ ──────────────────▶ ┌────────┐  from outside  ┌─────────┐
//!  │ waiting │                     │  held  │ ─────────────▶ │ decided │ ─▶ the holder
//!  │    0    │ ◀────────────────── │  BUSY  │                │ BUSY +  │    takes it out
//!  └─────────┘  let go: no mark,   └────────┘ ◀──┐           │ outcome │
//!       │       nothing decided         └────────┘           └─────────┘
//!       │                       mark left: another round          ▲
//!       └────────── decide from outside: takes the hold as well ──┘
//! ```
//!
//! **Registering**: look, before any cell exists → one hold of the home shard: closed? the registry and the wheel, and
//! those of the first sixteen keys that live there → the other keys → look again → let go, and do what the word then
//! says. The timer is armed in the hold that adds the first watches: an operation that is watched but not armed could be
//! seen neither by shutdown nor by `len`, and arming last costs a second hold of the lock.
//!
//! **Expiring**: a pass takes due operations out of the wheel under the shard's lock, in steps of 64; that decides
//! between an expiry and a reset. Then, with no lock held, it decides each: whoever is inside one acts, and the
//! pass goes on. All of a step is decided before the first of its callbacks, so a callback that cancels or resets others finds each
//! of them either waiting or ended.
//!
//! **A drive** is passes, and expires what was there when it began; else a callback that registers without a timeout would keep
//! it for ever. So drives have numbers, and an operation carries that of the latest drive when it was registered or reset. A
//! drive reads its clock *before* it takes its number, and a registration reads the number before its clock: what carries a
//! drive's own number has read a later clock, and is due at the drive's present at the earliest. If it is due before, the clock has
//! stepped back: then it may stand before older ones in the wheel, and is set aside until the drive is over.
//!
//! **Callbacks** run on the thread that acts, at once in an outermost call. In a nested one, made by a callback, they go to the
//! end of a queue of the thread; the outermost call empties it before it returns, but a pass takes no more than 1024. The queue
//! is a thread-local, and so cannot be generic: what waits in it is boxed, and `K` and `O` are `'static`. What else drops user
//! values, keys that nobody waits on, goes the same way.
//!
//! **Counting** is done in the books of the home shard, in the hold that arms an operation and in the one that takes it out:
//! between the two it is pending, also while a drive has it in hand. What is over at its first look is known to no shard, and
//! counted in an atomic of its own. Sums over the shards take one lock after the other: exact when nobody is inside.
//!
//! ## The orderings
//!
//! All is in one word, so nothing is sequentially consistent.
//!
//! | operation | ordering | for |
//! |---|---|---|
//! | take the hold to look | Acquire | the last holder's writes |
//! | mark | AcqRel | the state that changed before it is seen by the look; it may take the hold |
//! | claim | Acquire | of what the markers published, and of the hold |
//! | let go | Release, Relaxed on failure | the next holder sees what this one wrote |
//! | decide | AcqRel, Relaxed on failure | both: it may take the hold, and it publishes |
//!
//! # Watching at a number
//!
//! Ten thousand produce requests wait on a hot partition, each for an offset. Asking all of them at every event is linear
//! in their number; but each knows the number before which no look can succeed, and the event knows how far it has come.
//! So a key may be watched at a number, and an event with a number looks only at those that it has reached, and at those
//! that wait without one. They are in one ordered map of the shard, by (list, number, registration).
//!
//! After a look that says no the holder asks the operation for another number, and moves it there before it lets go. An
//! event that has come as far as the new number may pass by in between. *If the new number is the higher one*, it finds the
//! operation at the old one and leaves a mark, so that the holder looks again
//! (`an_event_between_a_look_and_waiting_at_a_higher_number`). *If it is the lower one*, the event goes by. So the holder
//! marks the operation itself, after all its watches have moved, and looks again: an event that went by had the lock of
//! the list before the move had it, and is seen (`an_event_between_a_look_and_waiting_at_a_lower_number`, and `…_in_another_shard`).
//! An operation that asks for lower numbers again and again tires its holder like one that is marked again and again.
//!
//! Why lower at all: an operation that waits for a sum, such as a fetch on many partitions, can say where to wait only by
//! dividing what is missing. If one key brings more than its part, less is needed of the others. Without a way down, a
//! number would be safe only where the others can bring nothing.
//!
//! An operation that moves during a walk may come before it again, or go behind it. For an event neither matters. The walk
//! leaves its number at those that it takes, and leaves out those that it or a younger walk has taken: their look comes after
//! this walk began, and sees its event (`walks_look_once_each_at_what_rises_before_them`). One that goes behind the walk is
//! looked at by the thread that moved it. A walk that forces, cancels or resets has no look to rely on. It goes along a
//! list in order of registration, in which nobody moves (`a_forced_completion_by_key_reaches_what_moves_meanwhile`).
//!
//! # Waiting as a future
//!
//! The look of a task borrows from the task, so no other thread can run it. What stands in the purgatory for the task is an
//! operation that looks at nothing. It shares a slot with the future: a waker, and how the wait has ended.
//!
//! ```text
//!  the task, in poll                                        whoever signals the key
//!  1. put the waker into the slot; has it ended?            1. change the state
//!  2. look: yes, the value                                  2. the operation's look takes the waker out of the slot,
//!           no, and ended: why                                 says no,
//!           no: wait for the waker                          3. and the waker is called once the call is about to return
//! ```
//!
//! * **An event against a poll** (`an_event_against_a_wait`, `two_events_against_a_wait_for_both`). The slot's lock decides.
//!   If the event has it first, its change comes before the task's look. If the task has it first, the event finds the waker
//!   and the task looks again. A waker that is put in after the look is missed by an event in between. The first poll registers
//!   before it puts its waker in, so what comes while it registers is seen by the look after that.
//! * **An expiry against a poll** (`an_expiry_against_a_wait`, `an_expiry_and_an_event_against_a_wait`), and so for all that
//!   ends an operation from outside. The end is written into the slot under the hold of its lock that takes the waker out. In
//!   two holds, a task that is woken by something else in between reads no end, and is not woken for it.
//! * **A future that is dropped against an event** (`a_wait_that_is_dropped_against_an_event`). The drop takes the waker
//!   out, then cancels the operation: that is its decision, and unlinks it in O(keys), or leaves it to the thread inside.
//! * **A value against the end.** The task asks for the end before its look, and a look that has a value wins: what
//!   it took is not lost. The operation may have been counted as expired by then; else the task tells it that it is over
//!   and has it looked at, so that the books say satisfied.
//!
//! The operation stays registered, whatever its task's looks say. *One that ends at the first event and registers again* was
//! rejected: it needs its keys twice, its place and its room can go to others, a walk that forces, cancels or resets
//! by key misses it in between, and who registers in a hurry may give it another deadline.
//!
//! A waker is code of others: it may signal, or run the task at once. Called in the look it would be a look's
//! signal, which is a mistake, and would nest looks; so it is [deferred](crate::defer) to where callbacks run. A waker that
//! is replaced is dropped when the slot is unlocked again, and cloned before it is locked.
//!
//! # Callbacks elsewhere
//!
//! With an executor ([`callbacks_on`](crate::Builder::callbacks_on)) a callback becomes a job at the point where it would
//! run: the decision, the unlinking and the books come before, on the thread that decided, and so does the queue that keeps
//! callbacks from nesting. So the order of a thread's jobs is that of its callbacks, and an executor that runs them in place is
//! no recursion. A job tells its operation when it is dropped, and to run it is to drop it. There is no third thing that can
//! become of it but to be leaked, so no operation ends twice or, of itself, never: if the executor's queue is full,
//! closed, thrown away or panics, the callback runs on the thread that drops the job. Nothing waits for jobs, no
//! shutdown either: that is for the executor's owner.
//!
//! *Counting a job that was dropped, without its callback*, was rejected: an operation answers a request, and who waits for
//! that would wait for ever. *Giving the executor an operation and its outcome*, to be completed by it: what is forgotten is
//! lost.
//!
//! # The order of the locks
//!
//! ```text
//!  a cell's mutex  ──▶  a shard's lock
//!         │
//!         └─────────────┐
//!  an expirer's roster  ┴─▶  a purgatory's bells  ──▶  a bell
//! ```
//!
//! An arrow leads from what is held to what may be taken under it. There are no others.
//!
//! Every lock of a shard is a leaf: nothing else is locked while it is held, no other shard either. The mutex in a cell
//! is taken by its holder alone; a shard's lock may be taken under it, never the other way round. An expirer's roster may
//! be held while a purgatory's list of bells is, and that while a bell is. No bell is rung with a shard's lock held. The
//! slot of a future is a leaf that may be taken under an operation's mutex. Of user code only the looks run under a lock,
//! the operation's own, for which nobody waits, and so may the hook for earlier deadlines, under that of an operation that
//! is just being registered; and `K`'s `Eq`, and its `Clone` for whoever asks for the hottest keys, under a shard's. A user's own locks come before all of these if they are held
//! during a call: what a look or a callback takes must not be among them.
//!
//! # The races
//!
//! Each is a model of the same name in `tests/models`, which loom and shuttle check on the code that ships.
//!
//! * **An event between look and watch** (`an_event_between_look_and_watch`). The second look. Either the signal found
//!   the operation on the list and left a mark, or it held the list's lock before the registration did; then
//!   the lock orders its change of state before the second look.
//! * **Events against a registration that is in the middle** (`two_events_against_a_registration`, and at a number
//!   `an_event_against_a_registration_at_a_number`). The thread that registers holds the operation, so each leaves a mark.
//! * **Two events at once** (`two_events_on_an_operation_that_needs_both`,
//!   `an_event_while_another_thread_is_inside`). The one that comes second finds BUSY and leaves
//!   a mark. The mark was put there before the holder let go, or the letting go was before the mark: one word, no
//!   third case.
//! * **An event against expiry** (`an_event_against_expiry`), and a cancellation at the same time
//!   (`an_event_an_expiry_and_a_cancellation_at_once`). The compare-exchange from none.
//! * **A forced completion, or a hand-back, of an operation that a thread is inside**
//!   (`a_forced_completion_against_a_busy_operation`, `handing_back_a_busy_operation`, and the same for a cancellation and
//!   a shutdown). Decided at once; acted on by the thread inside. It cannot be handed back without waiting, so it is
//!   completed with the outcome, never dropped in silence.
//! * **Cancelling or forcing by key against a registration** (`cancel_for_key_against_a_registration`,
//!   `force_for_key_against_a_registration`, `an_expiry_against_a_registration`). The decider does not unlink.
//!   If it did, the registering thread would add the next key to a list that nobody clears.
//! * **Shutdown against a registration** (`a_shutdown_against_a_registration`, `a_hand_back_against_a_registration`). The
//!   flag is read under the same hold of the lock that inserts, and set under it: a registration is swept up, or sees the
//!   flag.
//! * **A reset against expiry** (`a_reset_against_expiry`). Whoever has the lock first. A timer that was taken out is not
//!   put back.
//! * **A reset by key against a registration** (`a_reset_for_key_against_a_registration`). Armed, watched and known by its
//!   timer in one hold of the lock: what a walk finds can be reset.
//! * **Removing an emptied key against watching it** (`removing_an_emptied_key_against_watching_it`). Both under the lock;
//!   the list and its entry in the table go together.
//! * **A walk in steps against those that leave and come** (`a_walk_in_steps_against_one_that_leaves_and_one_that_comes`,
//!   `a_walk_in_steps_against_the_next_one_leaving`). The
//!   walker's place is a node of its own in the list. A list that is borrowed for a walk and then returned would not
//!   have had those on it whom an event in between was for.
//! * **A holder that tires** (`a_holder_that_tires_hands_its_look_on`). The operation goes to its home's queue, BUSY and all, and
//!   the driver is rung (`what_a_tired_holder_hands_on_wakes_the_expirer`): whoever comes by the queue first goes on. One that tires
//!   while the purgatory is shut down (`a_shutdown_against_a_holder_that_tires`) goes on itself, since nobody may come any more.
//! * **One that moves to another number against what ends it** (`an_operation_that_moves_against_an_expiry_and_a_cancellation`).
//!   Its holder moves it, so nobody has unlinked it yet.
//! * **Two drives at once** (`threads_that_drive_at_once_expire_each_operation_once`). Each timer is taken out by one of them,
//!   under the lock. They may share a number, or the second may end what the first has left: what was there before either is
//!   expired by one.
//! * **An earlier deadline between computing the sleep and sleeping** (`a_deadline_added_during_the_scan_is_not_overslept`,
//!   `a_deadline_added_while_the_alarm_still_shows_the_past_is_not_overslept`). The alarm is raised before the scan and
//!   lowered after; see the `alarm` module. So with a reset (`a_reset_to_an_earlier_deadline_wakes_the_driver`), a new purgatory
//!   (`a_purgatory_added_while_the_expirer_falls_asleep`) and the end (`the_end_of_the_expirer_while_it_falls_asleep`): a bell that
//!   was rung before the sleep ends it at once. With the expirer's own thread: `a_deadline_added_while_the_expirer_falls_asleep`.
//! * **A monitor that asks for the next deadline while an expirer drives, or comes**
//!   (`a_monitor_that_asks_while_the_expirer_drives`, `a_monitor_that_asks_while_the_expirer_takes_over`). Only a driver
//!   promises; who has promised before the expirer came rings it, and it plans again.
//!
//! # Bounded pauses
//!
//! No hold of a shard's lock takes more than about two thousand small steps, some ten microseconds, whatever is due and
//! however many wait. A test with a million timers in one bucket counts them
//! (`purgatory::tests::no_hold_takes_more_steps_than_its_bound_with_a_million_timers_in_one_bucket`), and `benches/pauses.rs` times
//! the holds; how it is built for that stands at its head.
//!
//! * *Expiring*: 64 operations are taken out under one hold; their callbacks run without it.
//! * *Moving down a level*: 128 timers under one hold. The wheel can stop in the middle of a bucket, and a start, a stop
//!   or a move in between finds it in order. A pass counts what it moves, so that purgatories of one expirer take turns.
//! * *Walking along a key*: 64 watchers under one hold. The walker's place is a cursor in the list.
//! * *Many keys*: an operation is put into 16 lists at the most, and taken out of as many, under one hold. It is armed in the
//!   first of them.
//! * *Growing*: the wheel's slots and chunks, and the lists' nodes, lie in segments; the table of the keys is one of
//!   extendible hashing, which splits one small part at a time, 112 keys. A table that doubles moves all its keys under the
//!   lock. What still doubles is the directory, 4 bytes for a hundred keys, and the lists of segments.
//! * *Finding the earliest deadline* after it was stopped: 256 chunks are looked at, or a thousand timers where the
//!   earliest of each chunk were stopped as well. If a bucket has more, a driver comes back at the start of the bucket's
//!   block, where it moves down and shows what is in it. This costs a wake-up for each level, and only where the earliest
//!   of many near each other was stopped.
//! * *Shutting down*: a shard's whole wheel is taken in one move and emptied without the lock.
//! * *Giving memory back*: what the tables give up is kept until the hold is over and freed without the lock. glibc's
//!   allocator, when a large block is freed or asked for, goes through all small blocks that were freed since it last did, which
//!   takes milliseconds where a crowd has ended in any order (the row *a burst ends, in any order*, of `benches/pauses.rs`). Room to
//!   note what is free is made as tables grow, so that an end allocates nothing under the lock either. What is left is a
//!   registration for which a table must grow; the books are put in order before, whenever there was waste.
//!
//! # What it says of itself
//!
//! Whoever runs a server must see what waits, for whom, and whether what is due is late; and nobody wants to pay for that with
//! each operation. So nothing is recorded as it happens but what costs an addition under a lock that is held anyway. Who
//! asks pays: [`stats`](crate::Purgatory::stats) adds up the shards, the feature `metrics` reads that when it is told to.
//!
//! | figure | where it is kept | what it costs |
//! |---|---|---|
//! | the books; moves down a level | a shard's, under its lock | an addition for each |
//! | over at once, rejected, panics, rings | an atomic each | where one is counted, and these are rare but the first |
//! | lateness, passes, the longest pass | the drives', under a lock of their own | that lock twice a pass, and once for each further step of 64 expiries; a reading of the clock at the end of a pass that did something, and before each further step |
//! | when an operation was registered | in the operation, six bytes beside the number of its home | 30 instructions: the clock was read for its deadline |
//! | how long it waited, if that is asked for | a shard's, under its lock | a reading of the clock for each end, 113 instructions besides |
//! | who waits on a key, which keys are hot | nowhere: read from the lists, and so gone with the key | bounded holds |
//! | what is in each bucket | nowhere: read from the heads of the chunks, which lie in a row | bounded holds |
//!
//! To register and complete on one key is 2348 instructions with all this and was 2318 without, to register and expire 3555 and
//! 3337 (`ci/counts.sh`); a wait that is measured makes it a fifth slower, since the clock takes 26 ns. The feature
//! `tracing` without a subscriber adds 8 instructions to a registration and 50 to a pass; the feature `metrics` none. In time,
//! interleaved in one run: to register and complete 1.00 of what it was, to register and expire alone in a pass 1.06, and 1.12
//! where a thousand expire in a pass and each is alone in its tick and shard, which is a reading of the clock for each.
//!
//! *An expiry's lateness is that of its decision*, from its deadline rounded up to a tick. Time is read again before a step of
//! expiries if something was done before it in the same pass: so slow callbacks show in the lateness of what comes after
//! them. A reading for a figure that panics costs the figure; what is in hand goes on.
//!
//! *A histogram is log-linear*, within a sixteenth: 976 counters of 64 bits. Coarser ones hide whether a tick is kept, finer ones
//! take more memory than a wheel's buckets. It is added up by adding; the difference of two states is what came between.
//!
//! *A key is cloned by one method*, `hottest_keys`, with the shard's lock held: there is no other way to give out a key that
//! may be dropped as soon as the lock is free. Only the winners are cloned, each in a hold of its own, after all lists were
//! measured. What `Eq` must not do `Clone` must not do either.
//!
//! Not measured, or not so:
//!
//! * *How long a lock is held*, or waited for: two readings of the clock, 50 ns, round holds of 100. With `--cfg ixion_pauses`
//!   they are timed, for `benches/pauses.rs`; a test counts their steps.
//! * *Each look and each callback.* The user's own code can time itself; what it costs others shows in the longest pass and in
//!   the lateness.
//! * *How long after the decision a callback begins.* A reading for each; it is what ran before it in the pass.
//! * *Waits, by default.* A fifth of registering and completing.
//! * *Counters for each key.* They would outlive the key, or be lost with it; Kafka has had both.
//! * *A closure that is shown each key under the lock*, instead of clones of a few. It is user code under a lock as well, and more
//!   of it. *Hashes instead of keys* tell nobody anything.
//! * *The recorder's own histograms.* They want each time as it comes, or all of them again at each scrape.
//! * *An event for each operation.* A program that wants them writes them in `on_complete`.
//!
//! # Many threads
//!
//! `cargo bench --bench scaling` prints what an operation on three keys takes, from its making to a signal that ends it, on one
//! thread and on several that share all keys. *Several take longer than one*: each hold finds the lines of its shard, the lock's
//! and that of what it guards, in another core's cache. On 16 shards three keys are in 2.8 of them on the average, and an
//! operation holds their locks 6.6 times: once each to register, once each to be taken out, and once for the walk. So with *m* for
//! the time that a line takes to come from another core, T threads, and all of them on all keys alike, an operation takes
//! about
//!
//! ```text
//!   t(1) + 2 · 6.6 · m · (T - 1) / T
//! ```
//!
//! From t(1) and t(2), which are printed, follows m, and from that what more threads would do. As long as no lock is waited
//! for, that is: a shard can be held by one thread at a time, so there should be several shards for each thread.
//!
//! Threads that keep to keys of their own share no lines but by chance: give each a purgatory of its own, with one shard, if they
//! never meet. What all threads write in any case is the limit: the counter of a capacity, twice for each operation, and
//! the one for what is over at its first look.
//!
//! # Rejected
//!
//! * *A lock for each operation, tried and skipped when taken* (Kafka before 2.7). Loses the event that comes while
//!   another thread looks. *The same lock, waited for* (Kafka since): one slow look stops the expiry thread.
//! * *A flag beside the lock* instead of one word. Right only with read-modify-writes on both sides, one of them a
//!   release even where it finds nothing, and many times the states to check.
//! * *Watch lists as vectors with tombstones, or as queues with sequence numbers.* Slower in a prototype where lists are short,
//!   as most are, and hardly faster where hundreds wait on a key. And a tombstone is a dead entry that somebody must purge.
//! * *Operations in a slab* instead of in `Arc`s. A tie; but an index in a walker's hands needs a generation, an `Arc`
//!   does not.
//! * *A lock for the wheels apart from the lists'.* A tie, and twice the locks to register.
//! * *Looks by shared reference under the list's lock.* Faster where many wait on a key, but user code under a lock. Numbers
//!   that the engine compares by itself save the looks without.
//! * *A thread for each purgatory* (Kafka: two). One for all of them sleeps until the earliest deadline.
//! * *Keeping the earliest deadline of every bucket exactly*, in a heap of its chunks. It costs every start and stop
//!   something, and only a bucket with many thousand timers can tell.
//! * *Numbers that only rise.* Right for one key; on several a number that has been given could not be taken back.
//! * *A purge.* Whoever ends an operation unlinks it, in time proportional to its keys.
//! * *A mock of the timer for tests* (Kafka's). What is tested is then not what ships; and it fires one tick later. A clock that
//!   is moved by hand needs one trait of two methods.
//! * *A callback for expiry beside that for completion* (Kafka's `onExpiration`, which comes second). Whoever must cancel what
//!   it waits for before it answers cannot, and an end has two places. One callback is told the outcome.
//! * *Rounding deadlines down* (Kafka): early by up to a tick, which a client sees as an answer before its time.
//! * *Errors instead of never* for durations that are too long. Every caller would have to clamp them.
//!
//! # The wheel
//!
//! Its [module](crate::wheel) explains the structure. What was measured, and what was tried instead:
//!
//! * *Taken: a bucket is a list of chunks of 64 timers*, streamed when they move or expire; a timer's slot says where it
//!   is, and stopping it clears a bit in the chunk's head. Sparse chunks are packed. `cargo bench --bench memory` prints
//!   what a timer takes, when it is started and after long churn.
//! * *Packing without telling the slots*, against merging neighbours at three eighths and giving all of them new places:
//!   fewer reads past the cache, and a little less memory. Packing in three steps instead of one saves a byte a timer and costs
//!   more instructions for each stop and start.
//! * *A stop does not look for a chunk's new earliest deadline* any more, which made one in thirty read the whole chunk: it
//!   is looked for when somebody asks. Asking after it was lost costs more; see above.
//! * *Until when nothing is due* is kept, so that a tick with nothing due looks at one word (`wheel-empty-tick` of `ci/counts.sh`).
//! * *A bucket of level 0 keeps a chunk* when it empties. Sparse timers each had one taken from the pool and given back.
//! * *Reading the slots of a chunk before they are written*, where there are many: the reads of a chunk are on their way at once.
//! * *Asking the allocator for zeroes* for a new chunk (`vec!`): more instructions each time, since glibc's `calloc` does not use the
//!   blocks it keeps for the thread.
//! * *Against buckets as plain arrays that are cleaned lazily* (the entry stays, its stamp no longer fits; compaction when
//!   more than half is stale): as fast or faster where thousands of timers are spread over many ticks, and a tie at a
//!   million; but compaction, growth and moving down are each O(bucket) in one call, the stamps wrap after 2^32 restarts
//!   of one slot, and it holds more memory after churn.
//! * *Against a doubly linked list through the slots* (the paper's, and most kernels'): cheaper to start and
//!   stop; but each expiry and each move down is a dependent cache miss, which shows where there are many.
//! * Both losers are kept in `benches/support`, and `cargo bench --bench wheel` compares all three with the rivals in one
//!   run.
//! * *What bounds it at a million timers*: three dependent cache misses to stop one (the caller's handle, the slot, the
//!   chunk's head).
