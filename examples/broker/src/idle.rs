//! The time limits of a connection: for its next request to begin, and for a request or a reply to pass. Each connection has
//! one timer.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ixion::{DelayedOperation, OperationId, Outcome};
use tokio::sync::oneshot;

use crate::cluster::Cluster;

/// A timer that waits in the purgatory.
pub(crate) struct IdleWait(oneshot::Sender<()>);

impl DelayedOperation for IdleWait {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, outcome: Outcome) {
        if outcome == Outcome::Expired {
            // Nobody listens if the connection was closed meanwhile.
            let _ = self.0.send(());
        }
    }
}

/// The timer of a connection. It ends with it.
pub(crate) struct ConnectionTimer<'a> {
    cluster: &'a Cluster,
    armed: Option<(OperationId, oneshot::Receiver<()>)>,
}

impl<'a> ConnectionTimer<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        ConnectionTimer { cluster, armed: None }
    }

    /// Counts from now. What ran out while nobody waited for it does not count.
    pub(crate) fn restart(&mut self, limit: Duration) {
        let idle = &self.cluster.idle;
        if self.armed.as_ref().is_some_and(|(id, _)| idle.reset_timeout(*id, limit)) {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        // Refused only by a shutdown, and then the connection is closed anyway.
        let registered = idle.try_complete_else_watch(IdleWait(sender), limit, []).ok();
        self.armed = registered.and_then(|registered| registered.id()).map(|id| (id, receiver));
    }

    /// Waits until the time is up.
    pub(crate) async fn expired(&mut self) {
        if let Some((_, receiver)) = &mut self.armed
            && receiver.await.is_ok()
        {
            return;
        }
        // There is no timer any more: that is a shutdown, which closes the connection itself.
        self.armed = None;
        std::future::pending().await
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

impl Drop for ConnectionTimer<'_> {
    fn drop(&mut self) {
        if let Some((id, _)) = &self.armed {
            drop(self.cluster.idle.cancel(*id));
        }
    }
}
