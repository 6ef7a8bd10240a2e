//! Faults on purpose. `ci/sanitizers.sh` builds this file alone, with each sanitizer, and demands that it reports the
//! fault that the argument names: a sanitizer that sees nothing here has seen nothing in the storms either.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::thread;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("race") => race(),
        Some("freed") => freed(),
        Some("cycle") => cycle(),
        other => panic!("no such fault: {other:?}"),
    }
}

/// Two threads write to one place.
fn race() {
    struct Shared(UnsafeCell<u32>);
    // SAFETY: none, that is the fault.
    unsafe impl Sync for Shared {}
    static SHARED: Shared = Shared(UnsafeCell::new(0));
    let write = || {
        // SAFETY: none.
        unsafe { *SHARED.0.get() += 1 };
    };
    let other = thread::spawn(write);
    write();
    other.join().expect("it does not panic");
}

/// A look at memory that was given back.
fn freed() {
    let boxed = Box::new(7);
    let at: *const u32 = &*boxed;
    drop(boxed);
    // SAFETY: none.
    black_box(unsafe { at.read_volatile() });
}

/// Many that keep each other, as an operation and a purgatory would.
fn cycle() {
    struct Knot(Mutex<Option<Arc<Knot>>>);
    for _ in 0..100 {
        let one = Arc::new(Knot(Mutex::new(None)));
        let other = Arc::new(Knot(Mutex::new(Some(Arc::clone(&one)))));
        *one.0.lock().expect("nobody panics") = Some(black_box(other));
    }
}
