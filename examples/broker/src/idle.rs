//! The time limits of a connection: for its next request to begin, and for a request or a reply to pass. Each connection has
//! one timer.

use std::convert::Infallible;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ixion::{Wait, WaitError, Waiting, Watch};

use crate::cluster::Cluster;

/// The timer of a connection. It ends with it.
pub(crate) struct ConnectionTimer<'a> {
    cluster: &'a Cluster,
    wait: Timer<'a>,
}

/// Nothing but its time ends it.
type Timer<'a> = Wait<'a, (), Waiting, [Watch<()>; 0], fn() -> Option<Infallible>>;

impl<'a> ConnectionTimer<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        ConnectionTimer { cluster, wait: timer(cluster, cluster.config.connections_max_idle) }
    }

    /// Counts from now. What ran out while nobody waited for it does not count.
    pub(crate) fn restart(&mut self, limit: Duration) {
        if !self.wait.reset_timeout(limit) {
            self.wait = timer(self.cluster, limit);
        }
    }

    /// Waits until the time is up.
    pub(crate) async fn expired(&mut self) {
        if (&mut self.wait).await != Err(WaitError::Elapsed) {
            // There is no timer any more: that is a shutdown, which closes the connection itself.
            self.wait = timer(self.cluster, Duration::MAX);
            std::future::pending().await
        }
    }

    /// Does some work, but not for longer than that: then there is no result. Only work that has to wait costs a restart.
    pub(crate) async fn limit<F: Future>(&mut self, limit: Duration, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        let at_once = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        if let Poll::Ready(done) = at_once {
            return Some(done);
        }
        self.restart(limit);
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.expired() => None,
        }
    }
}

fn timer(cluster: &Cluster, limit: Duration) -> Timer<'_> {
    cluster.idle.wait_at(limit, [], || None)
}
