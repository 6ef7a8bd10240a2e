//! What is done with the timers, the same for each peer. Answers are asserted as they come.

mod cycle;
mod threads;
mod turnover;
mod waiting;

pub use cycle::Cycle;
pub use threads::two_threads;
pub use turnover::Turnover;
pub use waiting::Waiting;

use crate::support::dropped;

/// Runs `work`, which must drop `n` payloads, numbered from 0, once each.
fn drops_all(n: usize, work: impl FnOnce()) {
    let n = n as u64;
    assert_eq!(dropped(work), (n, n * n.saturating_sub(1) / 2), "each is dropped once");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::each_peer;
    use crate::rivals::layouts::{Lazy, Linked};
    use crate::rivals::{Peer, Time};
    use crate::support::Delays;

    fn cycles<P: Peer>() {
        for delays in [Delays::uniform(), Delays::log_uniform()] {
            let mut cycle = Cycle::<P>::new(300, delays, Time::ByHand);
            cycle.expire(1);
            cycle.burst();
            cycle.expire(1000);
        }
    }

    #[test]
    fn each_peer_expires_what_is_due_and_nothing_else() {
        each_peer!(cycles());
        cycles::<Lazy>();
        cycles::<Linked>();
    }

    fn replaces<P: Peer>() {
        let mut waiting = Waiting::<P>::new(100, Delays::uniform(), Time::ByHand);
        waiting.replace_in_time(20_000);
        waiting.restart(1000);
        waiting.stop_all();
    }

    #[test]
    fn each_peer_keeps_what_is_replaced_and_moved() {
        each_peer!(replaces());
    }

    #[test]
    fn two_threads_share_each_of_those_that_can_be_shared() {
        use crate::rivals::shared::{hashed, locked_heap, locked_queue, purgatory, sleep};
        assert!(two_threads::<purgatory::Timers>(100, 1000) > 0.0);
        assert!(two_threads::<sleep::Sleeps>(100, 1000) > 0.0);
        assert!(two_threads::<locked_queue::LockedQueue>(100, 1000) > 0.0);
        assert!(two_threads::<locked_heap::LockedHeap>(100, 1000) > 0.0);
        assert!(two_threads::<hashed::HashedThread>(100, 1000) > 0.0);
    }

    fn turns_over<P: Peer>() {
        for stopped in [0, 50, 100] {
            let mut turnover = Turnover::<P>::new(1, stopped, Delays::log_uniform());
            turnover.run(1000);
            turnover.finish();
        }
    }

    #[test]
    fn each_peer_ends_each_timer_once() {
        each_peer!(turns_over());
    }
}
