//! A task of a model, polled by hand.

use crate::checker::sync::{Condvar, Mutex};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A task that sleeps until it is woken. If nobody wakes it, the checker sees a deadlock.
#[derive(Debug, Default)]
pub struct Sleeper {
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.bell.notify_all();
    }
}

impl Sleeper {
    /// Polls a future.
    pub fn poll<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
    }

    /// Sleeps until it is woken.
    pub fn sleep(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.bell.wait(woken).unwrap();
        }
        *woken = false;
    }

    /// Goes on with a future that was polled in vain.
    pub fn go_on<F: Future + Unpin>(self: &Arc<Self>, mut future: F) -> F::Output {
        loop {
            self.sleep();
            if let Poll::Ready(value) = self.poll(&mut future) {
                return value;
            }
        }
    }
}

/// Polls a future whenever its task is woken, until it is over.
pub fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let task = Arc::new(Sleeper::default());
    match task.poll(&mut future) {
        Poll::Ready(value) => value,
        Poll::Pending => task.go_on(future),
    }
}
