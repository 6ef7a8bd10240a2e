//! What reaches a recorder of the `metrics` crate.

use ixion::{BoxedOperation, DelayedOperation, Expirer, ManualClock, Outcome, Purgatory, telemetry};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use std::collections::BTreeMap;
use std::time::Duration;

struct Op;

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        false
    }
    fn on_complete(self, _outcome: Outcome) {}
}

/// Name and labels, as Prometheus writes them, and the value; and the names that are described.
fn recorded(publish: impl FnOnce()) -> (BTreeMap<String, f64>, Vec<String>) {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        telemetry::describe();
        publish();
    });
    let (mut values, mut described) = (BTreeMap::new(), Vec::new());
    for (key, unit, what, value) in recorder.snapshotter().snapshot().into_vec() {
        let labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={:?}", label.key(), label.value())).collect();
        let name = key.key().name();
        if unit.is_some() && what.is_some() {
            described.push(name.to_owned());
        }
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(_) => unreachable!("there are none"),
        };
        values.insert(format!("{name}{{{}}}", labels.join(",")), value);
    }
    (values, described)
}

fn some_purgatory(measured: bool) -> (ManualClock, Purgatory<u32, Op>) {
    let clock = ManualClock::new();
    let builder =
        Purgatory::builder("fetch").clock(clock.clone()).capacity(3).max_timeout(Duration::from_secs(9));
    let purgatory = builder.measure_waits(measured).build();
    for key in 0..5u32 {
        let timeout = Duration::from_secs(10 * u64::from(key));
        let _ = purgatory.try_complete_else_watch(Op, timeout, [key, key + 1]);
    }
    clock.advance(Duration::from_millis(40));
    assert_eq!(purgatory.expire().expired, 1);
    (clock, purgatory)
}

#[test]
fn a_recorder_is_told_all_that_the_books_say() {
    let (_, purgatory) = some_purgatory(true);
    let (values, _) = recorded(|| telemetry::publish(&purgatory));
    let value = |name: &str, labels: &str| {
        let name = format!("ixion_purgatory_{name}{{purgatory=\"fetch\"{labels}}}");
        *values.get(&name).unwrap_or_else(|| panic!("{name} in {values:#?}"))
    };
    assert_eq!(value("registered_total", ""), 3.0);
    assert_eq!(value("ended_total", ",outcome=\"expired\""), 1.0);
    assert_eq!(value("rejected_total", ",reason=\"full\""), 2.0);
    assert_eq!(value("clamped_total", ""), 2.0);
    assert_eq!((value("pending", ""), value("watched", ""), value("keys", "")), (2.0, 4.0, 3.0));
    assert_eq!((value("drives_total", ""), value("passes_total", "")), (1.0, 1.0));
    for times in ["lateness", "wait"] {
        let bucket = |le: &str| value(&format!("{times}_seconds_bucket"), &format!(",le=\"{le}\""));
        assert_eq!([bucket("0.025"), bucket("0.05"), bucket("900"), bucket("+Inf")], [0.0, 1.0, 1.0, 1.0]);
        let whole = ["count", "sum", "max"].map(|part| value(&format!("{times}_seconds_{part}"), ""));
        assert_eq!(whole, [1.0, 0.04, 0.04]);
    }
}

#[test]
fn each_line_of_the_books_has_a_metric_and_each_metric_a_description() {
    let (_, purgatory) = some_purgatory(true);
    let expirer = Expirer::spawn("of the metrics").expect("a thread");
    let (values, described) = recorded(|| {
        telemetry::publish(&purgatory);
        telemetry::publish_expirer(&expirer);
    });
    let undescribed: Vec<&String> = values
        .keys()
        .filter(|key| !described.iter().any(|name| key.starts_with(&format!("{name}{{"))))
        .collect();
    assert!(undescribed.is_empty(), "{undescribed:?}");
    assert_eq!(values.len(), 8 + 6 + 2 + 3 + 1 + 2 * 21 + 1);
    assert!(values.contains_key("ixion_expirer_wake_ups_total{expirer=\"of the metrics\"}"));
}

#[test]
fn to_publish_again_sets_and_does_not_add() {
    let (clock, purgatory) = some_purgatory(false);
    let (values, _) = recorded(|| {
        telemetry::publish(&purgatory);
        telemetry::publish(&purgatory);
        clock.advance(Duration::from_secs(9));
        assert_eq!(purgatory.expire().expired, 2);
        telemetry::publish(&purgatory);
    });
    assert_eq!(values["ixion_purgatory_registered_total{purgatory=\"fetch\"}"], 3.0);
    assert_eq!(values["ixion_purgatory_ended_total{purgatory=\"fetch\",outcome=\"expired\"}"], 3.0);
    assert_eq!(values["ixion_purgatory_pending{purgatory=\"fetch\"}"], 0.0);
    assert!(!values.keys().any(|name| name.contains("wait")), "waits were not measured");
}

#[test]
fn purgatories_are_told_apart_by_their_names() {
    let [one, two] = ["one", "two"].map(|name| {
        let purgatory: Purgatory<u32, BoxedOperation> =
            Purgatory::builder(name).clock(ManualClock::new()).build();
        purgatory
    });
    let _ = one.try_complete_else_watch(BoxedOperation::new(Op), Duration::MAX, [1]).expect("open");
    let (values, _) = recorded(|| [&one, &two].into_iter().for_each(telemetry::publish));
    let pending = |name: &str| values[&format!("ixion_purgatory_pending{{purgatory={name:?}}}")];
    assert_eq!((pending("one"), pending("two")), (1.0, 0.0));
}
