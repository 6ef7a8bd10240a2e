//! What you can rely on, and which test shows each.
//!
//! A test of the repository (`tests/tidy`) holds this page to account: each name below is that of a test. `it` is `tests/it`,
//! `models` is `tests/models`, whose tests are explored by loom and shuttle (`ci/models.sh`), `stress` is `tests/stress`, run
//! under two sanitizers too. The rest are tests of the library's own modules. Most suites of `it` are run again on clocks that
//! have been running for long, one of them nearly for ever: `it::uptime::every_suite_passes_after_any_uptime`.
//!
//! # G1. Never early, hardly late
//!
//! The deadline of an operation is the exact moment, rounded up to a tick. A clock reading is rounded down. So what expires has
//! had all its time. It expires in the first drive that reads its deadline: late by a tick at most, plus what it takes to
//! wake the driver, plus the callbacks that run before it in that drive.
//!
//! * `it::guarantees::time::an_operation_expires_in_the_first_drive_that_reads_its_deadline_and_not_before`
//! * `tick::tests::a_deadline_that_the_clock_has_reached_is_never_early`
//! * `it::guarantees::time::a_finer_clock_gives_finer_deadlines_to_the_same_code`
//! * in real time: `it::real_threads::an_expirer_expires_never_early`
//!
//! # G2. Exactly one end
//!
//! What was accepted ends in one call of [`on_complete`](crate::DelayedOperation::on_complete), or is handed to one caller. The
//! first who decides wins, and the others are told. No look begins after that. One that had begun may still finish, and its
//! answer counts for nothing; what it took is for `on_complete` to give back.
//!
//! * `it::guarantees::ends::each_way_to_end_gives_its_outcome_once_and_leaves_nothing`
//! * `it::guarantees::busy::no_look_begins_after_the_outcome_is_decided`
//! * `it::known_faults::what_an_operation_has_taken_is_released_exactly_once_by_every_end`
//! * races: `models::races::an_event_an_expiry_and_a_cancellation_at_once`, `models::races::an_event_against_expiry`,
//!   `models::registering::an_expiry_and_an_event_against_a_registration`
//! * `stress::storms::of_all_that_would_end_an_operation_exactly_one_does`
//!
//! # G3. No lost event
//!
//! Change the state, then signal the key. The operation sees it, whatever it and other threads are doing at that moment, with
//! any memory ordering of the state.
//!
//! * `models::registering::an_event_between_look_and_watch`
//! * `models::races::two_events_on_an_operation_that_needs_both`
//! * `it::guarantees::busy::an_event_during_the_look_that_says_no_completes_the_operation`
//! * `it::guarantees::busy::events_on_two_keys_race_registrations_and_none_is_lost`
//! * at a number: `models::progress::an_event_between_a_look_and_waiting_at_a_higher_number`,
//!   `models::progress::an_event_between_a_look_and_waiting_at_a_lower_number`
//! * `stress::storms::an_operation_that_every_thread_signals_sees_the_last_event`
//!
//! # G4. Nobody waits for your code
//!
//! Looks and callbacks have their operation to themselves. Who comes while another thread is inside, with a signal, an expiry, a
//! cancellation or a shutdown, decides or leaves a mark, and goes on; the thread inside acts on it before it lets go. One
//! that is marked again and again hands the rest over after sixteen rounds.
//!
//! * `it::guarantees::busy::expiry_does_not_wait_for_a_busy_operation_nor_do_those_behind_it`
//! * `it::guarantees::busy::cancel_force_and_reset_do_not_wait_for_a_busy_operation`
//! * `it::guarantees::busy::shutdown_does_not_wait_for_a_busy_operation`
//! * `it::guarantees::busy::a_thread_that_keeps_being_marked_hands_the_rest_over_and_nothing_is_lost`
//! * `models::races::an_event_while_another_thread_is_inside`, `models::races::a_holder_that_tires_hands_its_look_on`
//!
//! # G5. None of your code under a lock
//!
//! Not the looks, the callbacks, the hooks, the iterator of keys, nor the destructor of an operation or a key. They may call
//! the purgatory, on the same key too. The one exception is `K`'s `Eq` and `Equivalent`, which must neither panic nor call the
//! engine. Hashes are computed outside, and keys are cloned by nobody but [`hottest_keys`](crate::Purgatory::hottest_keys), which asks for
//! `Clone` and calls it under a lock.
//!
//! * `it::guarantees::callbacks::a_callback_may_call_everything_on_the_same_key_too`
//! * `it::guarantees::callbacks::the_keys_iterator_and_the_destructors_of_keys_may_call_the_purgatory_that_holds_them`
//! * `it::guarantees::definitions::destructors_of_operations_and_hooks_may_call_the_purgatory`
//! * `it::guarantees::ends::keys_are_dropped_with_their_last_watcher_and_never_cloned`
//!
//! # G6. Nothing is kept
//!
//! What ends leaves the wheel and all its watch lists at once, in time proportional to its keys. There is no purge. All
//! counts are exact whenever no thread is inside a call. Memory is given back after a burst.
//!
//! * `purgatory::tests::whatever_ends_an_operation_takes_it_out_of_the_wheel_and_every_list`
//! * `it::guarantees::ends::what_an_operation_holds_is_dropped_when_it_ends_and_before_the_call_returns`
//! * `it::field_reports::leak::what_is_completed_on_one_key_leaves_the_others_and_an_empty_key_leaves_too`
//! * `allocations::after_a_million_events_nothing_stays`, `allocations::after_a_million_expiries_nothing_stays`,
//!   `allocations::a_payload_is_given_back_when_its_operation_ends_on_one_of_its_keys`
//!
//! # G7. Panics stay with their operation
//!
//! A look that panics ends its operation with [`Panicked`](crate::Outcome::Panicked). A panic of a callback or a destructor
//! changes no outcome. Each is counted and given to a hook, which prints it if you set none. Everything else goes on. (Out of
//! reach: `panic = "abort"`, and a panic during a panic.)
//!
//! * `it::guarantees::panics::a_look_that_panics_ends_its_operation_and_the_walk_goes_on`
//! * `it::guarantees::panics::a_callback_or_destructor_that_panics_leaves_the_outcome_and_the_drive_goes_on`
//! * `it::guarantees::panics::hooks_that_panic_are_caught_as_well`
//! * `it::real_threads::callbacks_that_panic_harm_neither_the_thread_nor_the_other_purgatories`
//!
//! # G8. Any duration, any uptime
//!
//! Every [`Duration`](std::time::Duration) is legal, and [`Duration::MAX`](std::time::Duration::MAX) is never.
//! [`max_timeout`](crate::Builder::max_timeout) clamps and counts. Nothing wraps. A clock that steps back is taken as one that
//! stands still. Ids are never given out twice; an old or a foreign one is answered with `Gone` or `false`.
//!
//! * `it::guarantees::time::every_duration_is_legal_at_any_uptime`
//! * `it::guarantees::time::the_greatest_timeout_clamps_and_counts_and_never_rejects`
//! * `it::guarantees::time::a_clock_that_steps_back_does_no_harm`
//! * `it::guarantees::ends::a_stale_or_foreign_id_names_nothing`
//!
//! # G9. Bounded pauses
//!
//! No hold of a lock takes more than a bounded number of small steps: whatever is due, whatever moves down a level, however
//! many wait on a key, and while tables grow. `benches/pauses.rs` times the holds.
//!
//! * `purgatory::tests::no_hold_takes_more_steps_than_its_bound_with_a_million_timers_in_one_bucket`
//! * `it::guarantees::time::a_pass_is_bounded_and_a_drive_takes_what_was_due_when_it_began`
//! * `it::guarantees::definitions::a_walk_takes_those_that_were_on_the_key_when_it_began_and_still_wait_when_their_turn_comes`
//!
//! # G10. Idle is free
//!
//! The expirer sleeps until the earliest deadline. An earlier one wakes it, a later one does not. To cancel or postpone the
//! earliest may cost one wake-up.
//!
//! * `it::real_threads::with_nothing_due_there_are_no_wake_ups`
//! * `it::real_threads::cancelling_or_postponing_the_earliest_costs_one_wake_up_at_most`
//! * `it::real_threads::an_earlier_deadline_wakes_a_thread_that_sleeps_for_a_later_one`
//! * races: `models::alarm::a_deadline_added_during_the_scan_is_not_overslept`,
//!   `models::expirer::a_deadline_added_while_the_expirer_falls_asleep`
//!
//! # G11. Order
//!
//! A wheel expires by deadline, then by order of starting. A purgatory expires by tick, and within a shard by registration or last
//! reset; [`shards(1)`](crate::Builder::shards) makes that all of it. Operations on a key are looked at in order of
//! registration, those at a number after the others and by number. Purgatories that share an expirer take turns.
//!
//! * `it::wheel_order::a_wheel_does_what_a_sorted_list_does`
//! * `it::purgatory_order::with_one_shard_everything_happens_in_the_models_order`
//! * `it::guarantees::time::expiry_goes_by_tick_across_the_shards`,
//!   `it::guarantees::time::a_reset_orders_as_newly_registered_and_moves_a_deadline_both_ways`
//! * `it::guarantees::ends::looks_go_in_order_of_registration_and_only_what_is_met_ends`
//! * `it::real_threads::purgatories_of_one_expirer_get_a_pass_each_in_turn`
//!
//! # G12. The books balance
//!
//! Whenever no thread is inside a call: registered = satisfied + expired + forced + cancelled + shut down + panicked +
//! pending. What its first look satisfies counts too.
//!
//! * `it::simulation::whatever_a_seed_brings_about_the_purgatory_does_what_the_model_does`: after every step
//! * `it::real_threads::the_books_balance_after_a_storm`
//! * `models::engine::everything_at_once_and_then_a_shutdown`
//! * `stress::storms::in_a_storm_of_everything_each_operation_ends_once_and_nothing_is_left`
//!
//! # G13. Shutdown is your decision
//!
//! Everything that waits is completed with [`Shutdown`](crate::Outcome::Shutdown), or handed back. The first call decides. It may
//! come from any thread and from a callback, and waits for none. What registers too late is handed back to its caller.
//!
//! * `it::guarantees::shutdown::shutting_down_completes_everything_once`
//! * `it::guarantees::shutdown::handing_back_gives_every_operation_to_the_caller_and_calls_none`
//! * `it::guarantees::shutdown::a_rejected_operation_comes_back_whole_and_is_not_looked_at`
//! * `it::guarantees::definitions::two_shutdowns_at_once_are_one`
//! * races: `models::registering::a_shutdown_against_a_registration`, `models::races::handing_back_a_busy_operation`
//!
//! # G14. No recursion
//!
//! A call made in a callback decides at once, and its own callbacks run afterwards, in order, before the outermost call
//! returns. A chain of a hundred thousand costs no stack, and one without an end cannot hold a drive.
//!
//! * `it::guarantees::callbacks::what_a_callback_causes_runs_after_it_in_order`
//! * `it::guarantees::callbacks::a_chain_of_a_hundred_thousand_completions_costs_no_stack`
//! * `it::guarantees::definitions::a_chain_without_an_end_does_not_hold_a_drive`
//!
//! # G15. No `unsafe`
//!
//! `#![forbid(unsafe_code)]`.
//!
//! * `it::guarantees::definitions::the_library_forbids_unsafe_code`
//!
//! # G16. One timer, many clocks
//!
//! A test on a [`ManualClock`](crate::ManualClock) runs the code that ships. The same calls on the same clock, with the same
//! [`shards`](crate::Builder::shards) and [`hash_seed`](crate::Builder::hash_seed), on one thread, give the same order of
//! everything.
//!
//! * `it::guarantees::time::the_same_calls_on_the_same_clock_give_the_same_order_of_everything`
//! * `it::simulation::the_same_seed_gives_the_same_trace_and_another_seed_another`
//!
//! # Between the lines
//!
//! * The first look runs on the caller's thread. What it satisfies has allocated nothing:
//!   `allocations::an_operation_that_its_first_look_satisfies_allocates_nothing`.
//! * [`Full`](crate::RejectReason::Full) is only for what would have to wait:
//!   `it::guarantees::contract::the_capacity_counts_operations_and_only_those_that_would_wait_are_refused`.
//! * `keys` is consumed once, after the first look:
//!   `it::guarantees::definitions::the_keys_are_consumed_once_after_the_first_look_and_before_the_second`.
//! * A key that is given twice is watched once: `it::guarantees::contract::a_key_given_twice_is_watched_once`, and at its lowest
//!   number: `it::progress::a_key_given_twice_is_watched_once_at_the_lowest_number`.
//! * Only a drive expires. A timeout of zero is watched, and due at the next drive:
//!   `it::guarantees::time::a_zero_timeout_is_watched_and_due_at_the_next_drive`.
//! * What a drive's callback registers is for the next drive:
//!   `it::guarantees::definitions::a_zero_timeout_in_a_callback_of_a_drive_is_left_for_the_next_drive`.
//! * Expiry does not look again: `it::guarantees::ends::expiry_does_not_look_again`.
//! * A count is of what this call decided; 0 does not mean that nobody waits:
//!   `it::guarantees::definitions::zero_counted_does_not_mean_that_nobody_waits`.
//! * A look must not signal. In debug builds that is a panic, in others the call is put off and told 0:
//!   `it::guarantees::callbacks::a_look_that_signals_is_a_mistake_that_ends_its_operation_in_debug_builds`,
//!   `it::guarantees::callbacks::a_look_that_signals_is_put_off_whole_and_told_zero`.
//! * A future that is dropped leaves nothing behind: `it::future::ends::a_wait_can_be_dropped_at_any_stage_and_nothing_is_kept_of_it`. An
//!   event that comes while it looks wakes its task to look again:
//!   `it::future::waits::an_event_that_comes_during_a_look_wakes_the_task_to_look_again`.
//! * A dropped purgatory is shut down: `it::guarantees::shutdown::dropping_a_purgatory_shuts_it_down`. A dropped expirer is joined,
//!   but on its own thread: `it::real_threads::an_expirer_may_be_dropped_on_its_own_thread`.
