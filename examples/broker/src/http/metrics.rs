//! The figures for Prometheus.
//!
//! They are read when they are asked for: the broker counts everything once, and a scrape is as consistent as its stats.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::picture::{Engine, Picture};
use super::times::Times;
use crate::{PartitionStats, PurgatoryStats, Stats};

/// The text format that everything reads.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes all figures.
pub(super) fn write(picture: Picture) -> String {
    let mut registry = Registry::with_prefix("ixion");
    registry.register_collector(Box::new(picture));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("a string takes everything");
    text
}

impl Collector for Picture {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let seconds = self.uptime_ms as f64 / 1000.0;
        gauge(&mut to, "broker_uptime_seconds", "How long the broker has run", seconds)?;
        broker(&mut to, &self.stats)?;
        purgatories(&mut to, &self.stats)?;
        engines(&mut to, &self.engines)?;
        partitions(&mut to, &self.stats.partitions)
    }
}

fn broker(to: &mut DescriptorEncoder<'_>, stats: &Stats) -> fmt::Result {
    counter(to, "broker_requests", "Requests read", stats.requests)?;
    counter(to, "expirer_wake_ups", "How often the expirer's thread has looked what is due", stats.wake_ups)?;
    for (name, help, value) in [
        ("broker_connections", "Open client connections, the followers' included", stats.connections),
        ("broker_parked_requests", "Requests that wait in a purgatory", stats.parked),
        ("broker_timers", "Timers on the wheels", stats.timers),
        ("broker_groups", "Consumer groups that have members or offsets", stats.groups),
        ("broker_group_members", "Members of all groups", stats.members),
        ("broker_smallest_in_sync_set", "The fewest replicas in sync of any partition", stats.isr),
    ] {
        gauge(to, name, help, value)?;
    }
    let paused = (2u16..).zip(stats.nodes.iter().skip(1)).map(|(node, _)| {
        let labels = [("node", node.to_string())];
        (labels, u64::from(stats.paused.contains(&node)))
    });
    gauges(to, "follower_paused", "Whether the follower's fetching is paused", paused)
}

fn purgatories(to: &mut DescriptorEncoder<'_>, stats: &Stats) -> fmt::Result {
    type Figure = (&'static str, &'static str, fn(&PurgatoryStats) -> u64);
    const COUNTERS: [Figure; 8] = [
        ("purgatory_registered", "Operations accepted", |books| books.registered),
        ("purgatory_at_once", "Operations that were over at their first look", |books| books.at_once),
        ("purgatory_rejected", "Operations that were not accepted", |books| books.rejected),
        ("purgatory_passes", "How often the expirer has looked", |books| books.passes),
        ("purgatory_rings", "Deadlines before the one that was slept for", |books| books.rings),
        ("purgatory_cascaded", "Timers that moved down a level of the wheel", |books| books.cascaded),
        ("purgatory_clamped", "Timeouts clamped to the greatest allowed", |books| books.clamped),
        ("purgatory_panics", "Panics that were caught", |books| books.panics),
    ];
    const GAUGES: [Figure; 3] = [
        ("purgatory_pending", "Operations that wait", |books| books.pending),
        ("purgatory_watched", "Entries in watch lists", |books| books.watched),
        ("purgatory_keys", "Keys that somebody waits on", |books| books.keys),
    ];
    let all = stats.purgatories();
    let each = |figure: fn(&PurgatoryStats) -> u64| {
        all.iter().map(move |(name, books)| ([("purgatory", *name)], figure(books)))
    };
    for (name, help, figure) in COUNTERS {
        counters(to, name, help, each(figure))?;
    }
    let ends = all.iter().flat_map(|(name, books)| {
        let ends = books.ends();
        ends.map(|(outcome, count)| ([("purgatory", *name), ("outcome", outcome)], count))
    });
    counters(to, "purgatory_ended", "Operations that have ended, by how they did", ends)?;
    for (name, help, figure) in GAUGES {
        gauges(to, name, help, each(figure))?;
    }
    let longest =
        all.iter().map(|(name, books)| ([("purgatory", *name)], books.longest_pass_us as f64 / 1e6));
    gauges(to, "purgatory_longest_pass_seconds", "The longest that the expirer was busy at once", longest)
}

fn engines(to: &mut DescriptorEncoder<'_>, engines: &BTreeMap<&'static str, Engine>) -> fmt::Result {
    type Figure = (&'static str, &'static str, fn(&Engine) -> &Times);
    const HISTOGRAMS: [Figure; 2] = [
        ("purgatory_lateness_seconds", "From the deadline to the expiry", |engine| &engine.lateness),
        ("purgatory_wait_seconds", "From the registration to the end", |engine| &engine.waiting),
    ];
    for (name, help, times) in HISTOGRAMS {
        let mut family = to.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (purgatory, engine) in engines {
            let (labels, times) = ([("purgatory", *purgatory)], times(engine));
            let (sum, count) = (times.0.sum().as_secs_f64(), times.0.count());
            let mut metric = family.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(sum, count, &times.buckets(), None)?;
        }
    }
    let timers = engines.iter().flat_map(|(purgatory, engine)| {
        engine.levels.iter().enumerate().map(|(level, slots)| {
            (
                [("purgatory", purgatory.to_string()), ("level", level.to_string())],
                slots.iter().sum::<usize>(),
            )
        })
    });
    gauges(to, "wheel_timers", "Timers on a level of the wheel", timers)
}

fn partitions(to: &mut DescriptorEncoder<'_>, partitions: &[PartitionStats]) -> fmt::Result {
    type Figure = (&'static str, &'static str, fn(&PartitionStats) -> i64);
    const GAUGES: [Figure; 5] = [
        ("partition_log_start_offset", "The first offset that is kept", |partition| partition.log_start),
        ("partition_high_watermark", "What consumers may read up to", |partition| partition.high_watermark),
        ("partition_log_end_offset", "One past the last offset", |partition| partition.log_end),
        ("partition_replicas", "Replicas, the leader included", |partition| {
            1 + partition.followers.len() as i64
        }),
        ("partition_in_sync_replicas", "Replicas in sync", |partition| partition.isr.len() as i64),
    ];
    let labels_of =
        |of: &PartitionStats| [("topic", of.topic.clone()), ("partition", of.partition.to_string())];
    for (name, help, figure) in GAUGES {
        gauges(to, name, help, partitions.iter().map(|partition| (labels_of(partition), figure(partition))))?;
    }
    let lags = partitions.iter().flat_map(|partition| {
        partition.followers.iter().map(move |follower| {
            let [topic, index] = labels_of(partition);
            let labels = [topic, index, ("node", follower.node.to_string())];
            (labels, partition.log_end - follower.log_end)
        })
    });
    gauges(to, "partition_follower_lag_records", "Records that a follower does not have yet", lags)
}

fn counter(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (L, V)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in values {
        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    Ok(())
}

fn gauge(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: impl EncodeGaugeValue,
) -> fmt::Result {
    to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (L, V)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}
