//! What a program may count on of the types themselves: that they cross threads, that they are errors, what they print; and that
//! the expirer can be let go.

use crate::jobs::{Jobs, SOON, job};
use ixion::{
    BoxedOperation, Builder, Cancelled, CaughtPanic, Drive, Expired, Expirer, HandedBack, ManualClock,
    OperationId, Outcome, PanicPlace, Purgatory, Registration, RejectReason, Rejected, Resolution, Stats,
    Step, SystemClock, Tick, TimerId, TimingWheel, Watch,
};
use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// These hold when this compiles.
const fn crosses_threads<T: Send + Sync + Debug>() {}
const fn is_sent<T: Send + Debug>() {}
const fn is_an_error<T: Error + Send + Sync + 'static>() {}
const fn is_a_key<T: Copy + Ord + Hash>() {}

const _: () = {
    crosses_threads::<Purgatory<String>>();
    crosses_threads::<Builder<String, BoxedOperation>>();
    crosses_threads::<Expirer>();
    crosses_threads::<ManualClock>();
    crosses_threads::<SystemClock>();
    crosses_threads::<TimingWheel<String>>();
    crosses_threads::<(Expired<String>, Step<String>, TimerId)>();
    crosses_threads::<(Cancelled<String>, HandedBack<String>, Rejected<String>, Watch<String>)>();
    crosses_threads::<(Drive, OperationId, Outcome, PanicPlace, Registration, Resolution, Stats, Tick)>();
    // What is in a box, and what a panic has thrown, need not be shared.
    is_sent::<(BoxedOperation, CaughtPanic<'static>)>();
    is_an_error::<RejectReason>();
    is_an_error::<Rejected<String>>();
    is_a_key::<(OperationId, TimerId, Tick)>();
};

#[test]
fn each_outcome_and_each_place_of_a_panic_has_a_text_of_its_own() {
    let outcomes = [
        Outcome::Satisfied,
        Outcome::Expired,
        Outcome::Forced,
        Outcome::Cancelled,
        Outcome::Shutdown,
        Outcome::Panicked,
    ];
    let texts: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["satisfied", "expired", "forced", "cancelled", "shut down", "panicked"]);
    let places = [
        PanicPlace::Look,
        PanicPlace::Callback,
        PanicPlace::KeyDrop,
        PanicPlace::Hook,
        PanicPlace::Clock,
        PanicPlace::Executor,
    ];
    let texts: HashSet<String> = places.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), places.len());
    assert!(texts.contains("on_complete") && texts.contains("try_complete"));
}

#[test]
fn ids_can_be_kept_in_sets_of_either_kind() {
    let purgatory = Jobs::builder("ids").clock(ManualClock::new()).build();
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(job(&purgatory, Duration::MAX, |_| ()));
    }
    let sorted: BTreeSet<OperationId> = ids.iter().copied().collect();
    let hashed: HashSet<OperationId> = ids.iter().copied().collect();
    assert!(sorted.len() == 40 && hashed.len() == 40);
    assert!(ids.iter().all(|id| sorted.contains(id) && hashed.contains(id)));
}

#[test]
fn a_purgatory_can_be_printed_from_its_own_callback() {
    let clock = ManualClock::new();
    let purgatory = Arc::new(Jobs::builder("mirror").clock(clock.clone()).build());
    let (printed, same) = (Arc::new(Mutex::new(String::new())), Arc::downgrade(&purgatory));
    let page = Arc::clone(&printed);
    job(&purgatory, Duration::ZERO, move |_| {
        *page.lock().unwrap() = format!("{:?}", same.upgrade().unwrap());
    });
    assert_eq!(purgatory.expire().expired, 1);
    let printed = printed.lock().unwrap();
    assert!(printed.contains("\"mirror\"") && printed.contains("expired: 1"), "{printed}");
}

#[test]
fn an_expirer_that_is_detached_waits_for_no_callback_and_its_thread_ends() {
    let expirer = Expirer::spawn("detached").unwrap();
    let purgatory = Jobs::builder("held").build();
    let ((enter, entered), (open, gate)) = (channel(), channel::<()>());
    let ((alive, gone), (done, detached)) = (channel::<()>(), channel());
    // Dropped when the thread ends: then its other end is closed.
    thread_local!(static ALIVE: std::cell::RefCell<Option<Sender<()>>> = const { std::cell::RefCell::new(None) });
    job(&purgatory, Duration::ZERO, move |_| {
        ALIVE.set(Some(alive));
        enter.send(()).unwrap();
        gate.recv().unwrap();
    });
    expirer.drive(&purgatory);
    assert_eq!(entered.recv_timeout(SOON), Ok(()));
    thread::spawn(move || {
        expirer.detach();
        done.send(()).unwrap();
    });
    assert_eq!(detached.recv_timeout(SOON), Ok(()), "while the thread is inside the callback");
    open.send(()).unwrap();
    assert_eq!(gone.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected), "the thread has ended");
}
