//! Connections that are idle for too long are closed. Each has a timer, which every request starts anew.

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
pub(crate) struct IdleTimer<'a> {
    cluster: &'a Cluster,
    armed: Option<(OperationId, oneshot::Receiver<()>)>,
}

impl<'a> IdleTimer<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        IdleTimer { cluster, armed: None }
    }

    /// Counts from now. What ran out while a request was being answered does not count.
    pub(crate) fn restart(&mut self) {
        let (idle, limit) = (&self.cluster.idle, self.cluster.config.connections_max_idle);
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
}

impl Drop for IdleTimer<'_> {
    fn drop(&mut self) {
        if let Some((id, _)) = &self.armed {
            drop(self.cluster.idle.cancel(*id));
        }
    }
}
