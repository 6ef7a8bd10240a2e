//! What a purgatory says of itself, for the recorder of the `metrics` crate that the program has installed: Prometheus, StatsD,
//! OpenTelemetry. With the feature `metrics`.
//!
//! Nothing is recorded as it happens. [`publish`] reads [`stats`](Purgatory::stats) and the histograms, and sets each metric to
//! what it says: call it before each scrape, or every few seconds. An operation costs the same with the feature and
//! without.
//!
//! ```
//! use ixion::{Expirer, Purgatory, telemetry};
//!
//! let expirer = Expirer::spawn("expirer")?;
//! let fetches: Purgatory<u32> = Purgatory::builder("fetch").build();
//! telemetry::describe(); // once, after the recorder was installed
//! telemetry::publish(&fetches); // again and again
//! telemetry::publish_expirer(&expirer);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Each has the label `purgatory`, its name. Two purgatories should not have the same. Kafka has three such figures:
//!
//! | metric | | Kafka |
//! |---|---|---|
//! | `ixion_purgatory_registered_total` | operations accepted | |
//! | `ixion_purgatory_at_once_total` | of these, over at their first look | |
//! | `ixion_purgatory_ended_total{outcome}` | ended: `satisfied`, `expired`, `forced`, `cancelled`, `shut_down`, `panicked` | `expired`: ExpiresPerSec |
//! | `ixion_purgatory_rejected_total{reason}` | not accepted: `full`, `shutdown` | |
//! | `ixion_purgatory_clamped_total` | timeouts clamped to the greatest allowed | |
//! | `ixion_purgatory_panics_total` | panics of user code | |
//! | `ixion_purgatory_pending` | operations that wait | NumDelayedOperations |
//! | `ixion_purgatory_watched` | entries in watch lists | PurgatorySize |
//! | `ixion_purgatory_keys` | keys that somebody waits on | |
//! | `ixion_purgatory_drives_total`, `…_passes_total` | drives, and the passes they took | |
//! | `ixion_purgatory_rings_total` | earlier deadlines that woke the driver | |
//! | `ixion_purgatory_cascaded_total` | timers moved down a level | |
//! | `ixion_purgatory_longest_pass_seconds` | the longest pass so far | |
//! | `ixion_purgatory_lateness_seconds_…` | how late expiries were decided | |
//! | `ixion_purgatory_wait_seconds_…` | how long operations waited, if [measured](crate::Builder::measure_waits) | |
//! | `ixion_expirer_wake_ups_total{expirer}` | wake-ups of an expirer's thread | |
//!
//! (Kafka's PurgatorySize counts what has ended too, until it is purged; here nothing is.)
//!
//! The last two of a purgatory's are histograms in the form that Prometheus gives them: `…_bucket{le}`, the number of times up to
//! each of [`BOUNDS`], `…_count`, `…_sum`; and `…_max`. Counters, set to what a [`Histogram`] has, and not the recorder's
//! own histograms: these would have to be given each time again, and could not be added up.

use crate::operation::DelayedOperation;
use crate::{Expirer, Histogram, Purgatory, Stats};
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use std::hash::Hash;
use std::time::Duration;

/// The bounds of the buckets of each histogram, in milliseconds; a last bucket has all, `+Inf`.
pub const BOUNDS: [u64; 17] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000];

/// A name, what it is, and where its value is.
type Figure<V> = (&'static str, &'static str, fn(&Stats) -> V);

const COUNTERS: [Figure<u64>; 8] = [
    ("ixion_purgatory_registered_total", "operations accepted", |stats| stats.registered),
    ("ixion_purgatory_at_once_total", "operations over at their first look", |stats| stats.at_once),
    ("ixion_purgatory_clamped_total", "timeouts clamped to the greatest allowed", |stats| stats.clamped),
    ("ixion_purgatory_panics_total", "panics of user code", |stats| stats.panics),
    ("ixion_purgatory_drives_total", "drives", |stats| stats.work.drives),
    ("ixion_purgatory_passes_total", "passes of drives", |stats| stats.work.passes),
    ("ixion_purgatory_rings_total", "earlier deadlines that woke the driver", |stats| stats.work.rings),
    ("ixion_purgatory_cascaded_total", "timers moved down a level of the wheel", |stats| stats.work.cascaded),
];

const ENDED: &str = "ixion_purgatory_ended_total";
const OUTCOMES: [(&str, fn(&Stats) -> u64); 6] = [
    ("satisfied", |stats| stats.satisfied),
    ("expired", |stats| stats.expired),
    ("forced", |stats| stats.forced),
    ("cancelled", |stats| stats.cancelled),
    ("shut_down", |stats| stats.shut_down),
    ("panicked", |stats| stats.panicked),
];

const REJECTED: &str = "ixion_purgatory_rejected_total";
const REASONS: [(&str, fn(&Stats) -> u64); 2] =
    [("full", |stats| stats.rejected_full), ("shutdown", |stats| stats.rejected_shutdown)];

const GAUGES: [Figure<usize>; 3] = [
    ("ixion_purgatory_pending", "operations that wait", |stats| stats.pending),
    ("ixion_purgatory_watched", "entries in watch lists", |stats| stats.watched),
    ("ixion_purgatory_keys", "keys that somebody waits on", |stats| stats.keys),
];

const LONGEST_PASS: &str = "ixion_purgatory_longest_pass_seconds";
const LATENESS: &str = "ixion_purgatory_lateness_seconds";
const WAIT: &str = "ixion_purgatory_wait_seconds";
const HISTOGRAMS: [(&str, &str); 2] =
    [(LATENESS, "how late expiries were decided"), (WAIT, "how long operations waited")];

const WAKE_UPS: &str = "ixion_expirer_wake_ups_total";

/// Tells the recorder what each metric is, and its unit.
pub fn describe() {
    for (name, what, _) in COUNTERS {
        describe_counter!(name, Unit::Count, what);
    }
    describe_counter!(ENDED, Unit::Count, "operations that have ended, by outcome");
    describe_counter!(REJECTED, Unit::Count, "operations that were not accepted, by reason");
    for (name, what, _) in GAUGES {
        describe_gauge!(name, Unit::Count, what);
    }
    describe_gauge!(LONGEST_PASS, Unit::Seconds, "the longest pass so far");
    for (name, what) in HISTOGRAMS {
        describe_counter!(format!("{name}_bucket"), Unit::Count, format!("{what}: times up to a bound"));
        describe_counter!(format!("{name}_count"), Unit::Count, format!("{what}: times in all"));
        describe_gauge!(format!("{name}_sum"), Unit::Seconds, format!("{what}: sum of the times"));
        describe_gauge!(format!("{name}_max"), Unit::Seconds, format!("{what}: the longest time"));
    }
    describe_counter!(WAKE_UPS, Unit::Count, "wake-ups of an expirer's thread");
}

/// Sets the metrics of a purgatory to what it says of itself.
///
/// # Complexity
///
/// That of [`Purgatory::stats`], and some fifty look-ups in the recorder; a hundred with waits.
pub fn publish<K, O>(purgatory: &Purgatory<K, O>)
where
    K: Hash + Eq + 'static,
    O: DelayedOperation + 'static,
{
    let (name, stats) = (purgatory.name().to_owned(), purgatory.stats());
    for (counter, _, value) in COUNTERS {
        counter!(counter, "purgatory" => name.clone()).absolute(value(&stats));
    }
    for (outcome, value) in OUTCOMES {
        counter!(ENDED, "purgatory" => name.clone(), "outcome" => outcome).absolute(value(&stats));
    }
    for (reason, value) in REASONS {
        counter!(REJECTED, "purgatory" => name.clone(), "reason" => reason).absolute(value(&stats));
    }
    for (gauge, _, value) in GAUGES {
        gauge!(gauge, "purgatory" => name.clone()).set(value(&stats) as f64);
    }
    gauge!(LONGEST_PASS, "purgatory" => name.clone()).set(stats.work.longest_pass.as_secs_f64());
    publish_histogram(LATENESS, &name, &purgatory.lateness());
    if let Some(waits) = purgatory.waits() {
        publish_histogram(WAIT, &name, &waits);
    }
}

/// Sets the metrics of an expirer to what it says of itself.
pub fn publish_expirer(expirer: &Expirer) {
    counter!(WAKE_UPS, "expirer" => expirer.name().to_owned()).absolute(expirer.wake_ups());
}

fn publish_histogram(name: &str, purgatory: &str, times: &Histogram) {
    let bucket = |bound: String, count| {
        counter!(format!("{name}_bucket"), "purgatory" => purgatory.to_owned(), "le" => bound)
            .absolute(count);
    };
    for bound in BOUNDS.map(Duration::from_millis) {
        bucket(bound.as_secs_f64().to_string(), times.count_within(bound));
    }
    bucket("+Inf".to_owned(), times.count());
    counter!(format!("{name}_count"), "purgatory" => purgatory.to_owned()).absolute(times.count());
    gauge!(format!("{name}_sum"), "purgatory" => purgatory.to_owned()).set(times.sum().as_secs_f64());
    gauge!(format!("{name}_max"), "purgatory" => purgatory.to_owned()).set(times.max().as_secs_f64());
}
