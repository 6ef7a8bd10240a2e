//! Groups on a clock that is moved by hand.

mod life;
mod rebalances;

use bytes::Bytes;
use ixion::ManualClock;
use tokio::sync::oneshot::{self, Receiver};

use super::*;

const SESSION: Duration = Duration::from_secs(10);
const REBALANCE: Duration = Duration::from_secs(30);
const DELAY: Duration = Duration::from_secs(3);
const MOMENT: Duration = Duration::from_millis(1);

/// A group "g", and whoever joins it.
struct Bench {
    clock: ManualClock,
    coordinator: Arc<Coordinator>,
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

impl Bench {
    fn new(initial_delay: Duration) -> Bench {
        Bench::with(Config {
            group_initial_rebalance_delay: initial_delay,
            group_max_size: 5,
            ..Config::default()
        })
    }

    fn with(config: Config) -> Bench {
        let clock = ManualClock::new();
        Bench { coordinator: Arc::new(Coordinator::new(&config, clock.clone())), clock }
    }

    /// Lets time pass, from one deadline to the next: a timer that is armed on the way counts from there.
    fn pass(&self, time: Duration) {
        let Coordinator { rebalance, heartbeat, .. } = &*self.coordinator;
        let mut left = time;
        loop {
            while rebalance.expire().more || heartbeat.expire().more {}
            if left.is_zero() {
                return;
            }
            let next = [rebalance.time_to_next(), heartbeat.time_to_next()].into_iter().flatten().min();
            let step = next.map_or(left, |next| next.max(MOMENT).min(left));
            self.clock.advance(step);
            left -= step;
        }
    }

    fn send(&self, request: JoinRequest) -> Receiver<Joined> {
        let (sender, receiver) = oneshot::channel();
        self.coordinator.join("g", request, sender);
        receiver
    }

    /// Somebody new, who is not told its id first.
    fn comes(&self, name: &str) -> Receiver<Joined> {
        self.send(somebody(name))
    }

    /// A member joins once more.
    fn rejoins(&self, joined: &Joined) -> Receiver<Joined> {
        self.send(JoinRequest { member_id: joined.member_id.clone(), ..somebody("again") })
    }

    fn sync(&self, joined: &Joined, assignments: &[(&StrBytes, &'static str)]) -> Receiver<Synced> {
        let (sender, receiver) = oneshot::channel();
        let assignments = assignments
            .iter()
            .map(|(id, assignment)| ((*id).clone(), Bytes::from_static(assignment.as_bytes())));
        let request = SyncRequest {
            identity: identity(joined),
            assignments: assignments.collect(),
            ..SyncRequest::default()
        };
        self.coordinator.sync("g", request, sender);
        receiver
    }

    fn beats(&self, joined: &Joined) -> ErrorCode {
        self.coordinator.heartbeat("g", &identity(joined))
    }

    fn leaves(&self, joined: &Joined) -> ErrorCode {
        self.coordinator.leave("g", &joined.member_id, None)
    }

    /// A group of so many members that are all stable. The leader is the first.
    fn stable(&self, members: usize) -> Vec<Joined> {
        let waiting: Vec<_> = (0..members).map(|number| self.comes(&format!("m{number}"))).collect();
        self.pass(2 * DELAY);
        let mut joined: Vec<Joined> = waiting.into_iter().map(now).collect();
        joined.sort_by_key(|member| member.member_id != member.leader);
        for member in joined.iter().rev() {
            let synced = self.sync(member, &[]);
            assert!(member.member_id != member.leader || now(synced).error.is_none());
        }
        joined
    }

    /// What the books and the lists hold when nobody is left.
    fn assert_nothing_is_kept(&self) {
        let coordinator = &self.coordinator;
        assert_eq!((coordinator.rebalance.len(), coordinator.rebalance.watched()), (0, 0));
        assert_eq!((coordinator.heartbeat.len(), coordinator.heartbeat.watched()), (0, 0));
        assert_eq!(coordinator.sizes(), (0, 0));
    }
}

fn somebody(name: &str) -> JoinRequest {
    JoinRequest {
        client_id: text(name),
        session_timeout: SESSION,
        rebalance_timeout: REBALANCE,
        protocol_type: text("consumer"),
        protocols: vec![(text("range"), Bytes::from_static(b"about"))],
        ..JoinRequest::default()
    }
}

fn identity(joined: &Joined) -> Identity {
    Identity { member_id: joined.member_id.clone(), instance_id: None, generation: joined.generation }
}

/// An answer that must be there.
#[track_caller]
fn now<A>(mut receiver: Receiver<A>) -> A {
    receiver.try_recv().expect("it was answered")
}

/// Whether there is no answer yet.
fn waits<A>(receiver: &mut Receiver<A>) -> bool {
    receiver.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
}
