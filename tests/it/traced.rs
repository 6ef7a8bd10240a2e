//! What a subscriber of `tracing` is told.

use ixion::{DelayedOperation, Expirer, ManualClock, Outcome, Purgatory};
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Metadata, Subscriber};

/// Writes each event and each span into a line, with the spans that it is in.
#[derive(Clone, Default)]
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    depth: Arc<AtomicU64>,
    /// Panics at each event, and at the ends of a span.
    panics: bool,
    /// Wants to know only of what has this field.
    only: Option<&'static str>,
}

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    fn write(&self, metadata: &Metadata<'_>, text: &str) {
        if metadata.target() == "ixion" {
            let indent = "  ".repeat(self.depth.load(Ordering::Relaxed) as usize);
            let level = metadata.level();
            self.lines.lock().unwrap().push(format!("{indent}{level} {}", text.trim_end()));
        }
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Time is not the same each time.
        let value = if field.name() == "took" { "…".to_owned() } else { format!("{value:?}") };
        write!(self.0, "{field}={value} ").expect("it is a string");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.only.is_none_or(|field| metadata.fields().field(field).is_some())
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text(format!("span {} ", span.metadata().name()));
        span.record(&mut text);
        self.write(span.metadata(), &text.0);
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.write(event.metadata(), &text.0);
        assert!(!self.panics, "planted");
    }
    fn enter(&self, _: &Id) {
        self.depth.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics, "planted");
    }
    fn exit(&self, _: &Id) {
        self.depth.fetch_sub(1, Ordering::Relaxed);
        assert!(!self.panics, "planted");
    }
}

struct Op(Box<dyn FnMut() + Send>);

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        false
    }
    fn on_complete(mut self, _outcome: Outcome) {
        (self.0)();
    }
}

fn waits() -> Op {
    Op(Box::new(|| {}))
}

fn purgatory(clock: &ManualClock) -> Purgatory<u32, Op> {
    let builder = Purgatory::builder("traced").clock(clock.clone()).capacity(2);
    builder.max_timeout(Duration::from_secs(9)).on_panic(|_| {}).build()
}

#[test]
fn what_is_rare_is_told_and_a_pass_is_a_span_round_its_callbacks() {
    let (lines, clock) = (Lines::default(), ManualClock::new());
    let purgatory = purgatory(&clock);
    let slow = clock.clone();
    let panics = Op(Box::new(move || {
        slow.advance(Duration::from_millis(100));
        std::panic::resume_unwind(Box::new("planted"));
    }));
    with_default(lines.clone(), || {
        let _ = purgatory.try_complete_else_watch(panics, Duration::from_millis(5), [1]);
        let _ = purgatory.try_complete_else_watch(waits(), Duration::from_secs(10), [1]);
        assert_eq!(
            lines.take(),
            ["DEBUG message=a timeout was clamped purgatory=\"traced\" timeout=10s max=9s"]
        );
        assert!(purgatory.try_complete_else_watch(waits(), Duration::from_secs(1), [1]).is_err());
        assert_eq!(
            lines.take(),
            ["DEBUG message=an operation was rejected purgatory=\"traced\" reason=the purgatory is full"]
        );
        assert_eq!(purgatory.check_and_complete(&1), 0);
        assert!(lines.take().is_empty(), "a look is not rare");
        clock.advance(Duration::from_millis(5));
        assert_eq!(purgatory.expire().expired, 1);
        assert_eq!(
            lines.take(),
            [
                "TRACE span pass purgatory=\"traced\"",
                "  ERROR message=user code panicked purgatory=\"traced\" place=on_complete message=\"planted\"",
                "  WARN message=a pass took long purgatory=\"traced\" took=… expired=1",
            ]
        );
        assert_eq!(purgatory.shutdown(), 1);
        drop(purgatory);
        assert_eq!(
            lines.take(),
            ["DEBUG message=a purgatory was shut down purgatory=\"traced\" decided=1"],
            "once"
        );
    });
}

#[test]
fn a_subscriber_that_panics_costs_no_operation_and_no_hook() {
    let (lines, clock) = (Lines { panics: true, ..Lines::default() }, ManualClock::new());
    let told = Arc::new(AtomicU64::new(0));
    let hook = Arc::clone(&told);
    let builder = Purgatory::builder("traced").clock(clock.clone()).capacity(2);
    let builder = builder.max_timeout(Duration::from_secs(9));
    let purgatory = builder.on_panic(move |_| _ = hook.fetch_add(1, Ordering::Relaxed)).build();
    let ended = Arc::new(AtomicU64::new(0));
    let end = || {
        let ended = Arc::clone(&ended);
        Op(Box::new(move || _ = ended.fetch_add(1, Ordering::Relaxed)))
    };
    let panics = Op(Box::new(|| std::panic::resume_unwind(Box::new("planted"))));
    with_default(lines, || {
        let _ = purgatory.try_complete_else_watch(panics, Duration::from_millis(5), [1]).expect("open");
        clock.advance(Duration::from_millis(5));
        assert_eq!(purgatory.expire().expired, 1);
        for _ in 0..2 {
            let clamped = purgatory.try_complete_else_watch(end(), Duration::from_secs(10), [1]);
            assert!(clamped.expect("there is room").id().is_some());
        }
        let rejected = purgatory.try_complete_else_watch(end(), Duration::from_secs(1), [1]);
        rejected.expect_err("it is full").op.on_complete(Outcome::Cancelled);
        assert_eq!(purgatory.shutdown(), 2);
    });
    let stats = purgatory.stats();
    assert_eq!((stats.expired, stats.shut_down, stats.pending, stats.watched), (1, 2, 0, 0));
    assert_eq!((ended.load(Ordering::Relaxed), told.load(Ordering::Relaxed), stats.panics), (3, 1, 1));
    assert!(stats.balances());
}

#[test]
fn an_expirer_is_told_of_when_it_starts_and_stops() {
    // Its thread has no subscriber of its own. This is everybody's: other tests have expirers too.
    let everybodys = Lines { only: Some("expirer"), ..Lines::default() };
    tracing::subscriber::set_global_default(everybodys.clone()).expect("no other test sets it");
    drop(Expirer::spawn("traced expirer").expect("a thread"));
    let lines = everybodys.take();
    let own: Vec<&String> = lines.iter().filter(|line| line.contains("traced expirer")).collect();
    assert_eq!(own.len(), 2, "{lines:?}");
    assert!(own[0].contains("an expirer started") && own[1].contains("an expirer stopped"), "{own:?}");
}
