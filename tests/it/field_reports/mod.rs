//! Faults that were reported of other timers and queues, as scenarios that must go right here. The ids are those of
//! `tests/README.md`, which also says where the scenarios are that stand elsewhere, and which concern parts that this
//! crate does not have.

mod api;
mod can;
mod clk;
mod dbl;
mod leak;
mod met;
mod ord;
mod ovf;
mod pan;
mod pre;
mod real_time;
mod ree;
mod shu;
mod sta;
mod support;
mod threads;
mod wak;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Runs on a thread of its own, with a stack of this size, and fails if it is not over in a while.
fn watched(stack: usize, run: impl FnOnce() + Send + 'static) {
    let (end, ended) = channel::<()>();
    let thread = thread::Builder::new().stack_size(stack).spawn(move || {
        let _end = end;
        run();
    });
    // Disconnected: it is over, well or not.
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected));
    thread.unwrap().join().unwrap();
}
