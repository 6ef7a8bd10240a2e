//! Hearing of what others change, without asking.
//!
//! The scripts publish no more than is needed. Why it suffices, for a taker that waits and for a lease that runs out:
//!
//! * A taker that gets less than it asks for is told when the next item is due, and its queue has an alarm for then: a
//!   queue wakes one taker for an item, and that one wakes others only if it got all. What comes later is published if it is
//!   the first of those that wait. If another stands before it, which was not there or not due when the taker looked, then
//!   the taker's queue has an alarm for that one, or has heard of it: so it looks again, at a moment when both are there.
//! * A taker that gets less for want of room leaves a mark, and whoever makes room then publishes.
//! * Each queue has an alarm for the first lease that it knows. One that is the first is published. If another stands
//!   before it, every queue has an alarm for that one, and asks then what is next.
//! * Who was away looks at everything when it is back, and so does one that begins.
//!
//! No clock is compared with another here: a time is published as it stands in the store, and each queue takes it by its own.

use super::clock::Follower;
use super::connections::{ANSWER, Connections};
use super::error::{Fault, RedisError};
use crate::store::Changed;
use ixion::{Clock, SystemClock, Tick};
use parking_lot::{Condvar, Mutex};
use redis::{Msg, Value, cmd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The thread that listens. It ends when this is dropped.
pub(super) struct Watcher {
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
    /// Closed by the thread when it ends.
    ended: Mutex<Receiver<()>>,
}

/// What the thread works with.
pub(super) struct Watch {
    connections: Arc<Connections>,
    follower: Arc<Follower>,
    channel: String,
    me: String,
    changed: Mutex<Option<Changed>>,
    is_over: Mutex<bool>,
    over: Condvar,
    clock: SystemClock,
}

/// How often the thread asks whether the server is there, and what time it is.
const BEAT: Duration = Duration::from_secs(30);
/// The pauses between tries to connect, which double.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long the end of the thread is waited for. One that hears nothing, since the server does not, ends by itself.
const GRACE: Duration = Duration::from_millis(500);

impl Watcher {
    pub(super) fn start(
        connections: &Arc<Connections>,
        follower: &Arc<Follower>,
        channel: String,
        me: String,
    ) -> Result<Self, RedisError> {
        let (connections, follower) = (Arc::clone(connections), Arc::clone(follower));
        let (changed, is_over, over) = (Mutex::default(), Mutex::default(), Condvar::new());
        let clock = SystemClock::new();
        let watch = Watch { connections, follower, channel, me, changed, is_over, over, clock };
        let watch = Arc::new(watch);
        let (end, ended) = mpsc::channel();
        let thread = {
            let watch = Arc::clone(&watch);
            let run = move || {
                watch.run();
                drop(end);
            };
            thread::Builder::new().name("ixion-retry-redis".into()).spawn(run)
        };
        let no_thread =
            |error| RedisError::new(None, Fault::Unfit(format!("no thread can be started: {error}")));
        Ok(Watcher { watch, thread: Some(thread.map_err(no_thread)?), ended: Mutex::new(ended) })
    }

    /// From now on, the queue is told.
    pub(super) fn tell(&self, changed: Changed) {
        *self.watch.changed.lock() = Some(changed);
    }

    /// Tells the queue what this store has itself learned for it.
    pub(super) fn learn(&self, learn: impl FnOnce(&Changed)) {
        self.watch.learn(learn);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        *self.watch.is_over.lock() = true;
        self.watch.over.notify_all();
        let Some(thread) = self.thread.take() else { return };
        // The last to hold the queue may be the thread itself, while it tells it something.
        if thread.thread().id() == thread::current().id() {
            return;
        }
        let Watch { connections, channel, me, .. } = &*self.watch;
        connections.say_goodbye(|connection| cmd("PUBLISH").arg(channel).arg(me).exec(connection));
        if self.ended.lock().recv_timeout(GRACE) != Err(mpsc::RecvTimeoutError::Timeout) {
            // It has ended, if not by a panic of somebody's waker, which was told.
            let _ = thread.join();
        }
    }
}

impl Watch {
    fn run(&self) {
        let mut pause = PAUSE;
        while !self.is_over() {
            // Why it ended does not matter: the steps of the queue fail for the same reason, and say so.
            if let Ok(mut connection) = self.connections.connect() {
                pause = PAUSE;
                let _ = self.listen(&mut connection);
            }
            let mut is_over = self.is_over.lock();
            if !*is_over {
                self.over.wait_for(&mut is_over, pause);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn listen(&self, connection: &mut redis::Connection) -> redis::RedisResult<()> {
        let mut listening = connection.as_pubsub();
        listening.subscribe(&self.channel)?;
        // Nobody knows what was said before.
        self.learn(|changed| changed.runs_out(Tick::ZERO));
        let mut beat = self.clock.elapsed();
        while !self.is_over() {
            let left = BEAT.saturating_sub(self.clock.elapsed().saturating_sub(beat));
            if left.is_zero() {
                listening.set_read_timeout(Some(ANSWER))?;
                listening.ping::<Value>()?;
                // A server that does not say what time it is is asked again.
                let _ = self.connections.run(|connection| self.follower.follow(connection));
                beat = self.clock.elapsed();
                continue;
            }
            listening.set_read_timeout(Some(left))?;
            match listening.get_message() {
                Ok(message) => self.heed(&message),
                Err(error) if error.is_timeout() => {}
                Err(error) => {
                    // The client takes leave, and must not wait for long.
                    listening.set_read_timeout(Some(PAUSE))?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Who, in which index, and when.
    fn heed(&self, message: &Msg) {
        let Ok(message) = std::str::from_utf8(message.get_payload_bytes()) else { return };
        let mut words = message.split(' ');
        let (Some(who), Some(index), Some(at)) = (words.next(), words.next(), words.next()) else { return };
        let Ok(at) = at.parse().map(Tick::new) else { return };
        if who == self.me {
            return;
        }
        match index {
            "w" => self.learn(|changed| changed.due(at)),
            "l" => self.learn(|changed| changed.runs_out(at)),
            _ => {}
        }
    }

    /// Outside the lock: the queue may be dropped by what it is told.
    fn learn(&self, learn: impl FnOnce(&Changed)) {
        let changed = self.changed.lock().clone();
        if let Some(changed) = changed {
            learn(&changed);
        }
    }

    fn is_over(&self) -> bool {
        *self.is_over.lock()
    }
}
