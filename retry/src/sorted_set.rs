//! What is wrong with the sorted-set recipe, fault by fault.
//!
//! The common way to build retries on Redis is a sorted set. What has failed is added with its due time as the score,
//! `ZADD retries DUE PAYLOAD`, and a job wakes up every two seconds:
//!
//! ```text
//! ZREVRANGEBYSCORE retries NOW 0      read all that is due (or ZRANGEBYSCORE retries 0 NOW)
//! ZREMRANGEBYSCORE retries 0 NOW      remove that range
//! for each: send                      to a topic, to a worker
//! ```
//!
//! This is short, and it works as long as nothing goes wrong. Below is what does. For each fault a test runs the
//! recipe (`retry/tests/it/recipe.rs`) on a real server, shows the fault, and does the same with a
//! [`RetryQueue`](crate::RetryQueue) in a [`RedisStore`](crate::RedisStore) on the same server.
//!
//! # It loses items
//!
//! **A crash between removal and sending.** What was read is then in the memory of the job alone. If it crashes, or is killed by
//! a deployment, all that it has not sent yet is gone. (To send first and to remove afterwards sends all of it twice after a
//! crash, and does not help with the next fault.) *Here* an item stays in the store until a worker says that it is done.
//! `sorted_set::whatever_is_read_and_not_sent_when_its_process_crashes_is_not_lost`
//!
//! **What is added between read and removal.** The removal goes by scores, not by what was read. What gets a score in that range
//! between the two commands (a retry without delay, one from a producer whose clock is behind) is removed and was never read.
//! *Here* to find items and to hand them out is one step of the server.
//! `sorted_set::what_is_added_while_a_batch_is_given_out_is_not_lost`
//!
//! **A worker that gets an item and dies.** There is no acknowledgement: once it is sent, nobody knows of an item any more.
//! *Here* a delivery is good for a time. If it is not acknowledged by then, the item comes to another worker, and the old
//! receipt is void.
//! `sorted_set::what_a_worker_has_taken_comes_to_another_when_that_one_dies`
//!
//! **Two items alike.** A set has each member once. The second of two equal payloads only changes the due time of the first, so
//! one of them is lost and the other is moved. (To keep the payloads in a hash, under random names, cures this and makes the
//! order random.) *Here* each item has an id.
//! `sorted_set::as_many_items_come_as_were_pushed_though_they_are_alike`
//!
//! # It sends twice
//!
//! Two jobs, for availability or because the old one still runs when the new one starts, both read the range before either has
//! removed it, and both send all of it. *Here* what was taken is one worker's until its time is over.
//! `sorted_set::two_workers_never_have_the_same_item`
//!
//! # It has no useful order
//!
//! `ZREVRANGEBYSCORE` gives the newest first: under load the oldest wait longest. With either command, items of one due time
//! come in the order of their bytes, "10" before "9" or the reverse. *Here* they come by due time, and those of one moment as
//! they were pushed.
//! `sorted_set::items_come_by_due_time_and_those_of_one_moment_as_they_were_pushed`
//!
//! # It is late, and never sleeps
//!
//! **Late by up to its period.** What becomes due just after a poll waits for the next one: two seconds at most, one on
//! average. *Here* a timer is set to the moment. The README has figures of both.
//! `sorted_set::an_item_comes_in_the_tick_in_which_it_is_due`
//!
//! **Polls for nothing.** Each job asks and removes 43,200 times a day, whether or not anything is due. A shorter period makes
//! this worse and the lateness better. *Here* nothing is asked before something is due.
//! `sorted_set::nothing_is_asked_of_the_server_before_something_is_due`
//!
//! # It tries for ever
//!
//! Nothing counts. What fails each time goes round until somebody notices, and nobody can see how often it has failed and why.
//! (A counter in the payload must be kept by everybody who adds it again.) *Here* the [`Backoff`](crate::Backoff) ends after so
//! many attempts or so long a time, and what is left is a dead letter with its failures.
//! `sorted_set::what_fails_each_time_ends_and_its_failures_are_known`
//!
//! # It reads without bound
//!
//! After an outage everything is due at once. The first poll reads it all, in one reply and into memory. If that is too much
//! the job dies, and so does the next one. (`LIMIT` bounds the read, but not the removal of the range.) *Here* a worker gets as
//! many as it asks for.
//! `sorted_set::a_worker_gets_no_more_than_it_asks_for_however_much_is_due`
//!
//! # Its times are not exact
//!
//! A score is a double, with 53 bits. Milliseconds since 1970 fit. Nanoseconds do not: times up to 256 ns apart are one score,
//! and an item comes early by as much. *Here* a time is a whole number of 64 bits.
//! `sorted_set::no_item_comes_early_however_fine_and_large_the_clock_is`
