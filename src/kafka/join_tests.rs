//! The rules j1 to j6 of rebalances that wait, by hand and with a small coordinator on a clock that is moved by hand.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;
use crate::{ManualClock, Purgatory};

const DELAY: Duration = Duration::from_millis(100);

type Answer = Box<dyn FnOnce(JoinEnd, Rc<Group>)>;
type Join = DelayedJoin<Rc<Group>, Answer>;

/// A group made by hand. A callback that ran with its lock held would find it borrowed.
struct Group(RefCell<Standing>);

impl JoinGroup for Rc<Group> {
    fn join_standing(&self) -> Standing {
        *self.0.borrow()
    }
}

impl Group {
    fn change(&self, change: impl FnOnce(&mut Joining)) {
        match &mut *self.0.borrow_mut() {
            Standing::Joining(group) => change(group),
            Standing::Over => panic!("the group is gone"),
        }
    }

    /// A member that the group does not know joins.
    fn arrive(&self) {
        self.change(|group| {
            group.members += 1;
            group.joined += 1;
            group.arrivals += 1;
        });
    }
}

/// One group and its waits.
struct Coordinator {
    clock: ManualClock,
    purgatory: Purgatory<u32, Join>,
    group: Rc<Group>,
    /// What came of the waits that are over.
    ends: RefCell<Vec<(Outcome, NextStep)>>,
    waits: Cell<u32>,
}

impl Coordinator {
    fn new() -> Rc<Self> {
        let clock = ManualClock::new();
        Rc::new(Coordinator {
            purgatory: Purgatory::builder("Rebalance").clock(clock.clone()).build(),
            clock,
            group: Rc::new(Group(RefCell::new(Standing::Joining(Joining::default())))),
            ends: RefCell::default(),
            waits: Cell::new(0),
        })
    }

    /// A group of so many members, none of which has joined, and the wait for them.
    fn rebalancing(members: usize) -> Rc<Self> {
        let this = Coordinator::new();
        this.group.change(|group| group.members = members);
        this.wait(None, Duration::from_secs(60));
        this
    }

    /// An empty group in which somebody has just arrived.
    fn beginning(delay: Duration, rebalance_timeout: Duration) -> Rc<Self> {
        let this = Coordinator::new();
        this.group.arrive();
        let initial = InitialDelay::new(delay, rebalance_timeout, 1);
        this.wait(Some(initial), initial.timeout());
        this
    }

    fn wait(self: &Rc<Self>, initial: Option<InitialDelay>, timeout: Duration) {
        self.waits.set(self.waits.get() + 1);
        let this = Rc::clone(self);
        let answer: Answer = Box::new(move |end, group| match end {
            JoinEnd::Again(delay) => this.wait(Some(delay), delay.timeout()),
            JoinEnd::Over(outcome) => {
                group.change(|group| group.members = group.joined); // the others are removed
                this.ends.borrow_mut().push((outcome, next_step(group.join_standing())));
            }
        });
        let op = match initial {
            Some(delay) => DelayedJoin::initial(Rc::clone(&self.group), delay, answer),
            None => DelayedJoin::new(Rc::clone(&self.group), answer),
        };
        let registration = self.purgatory.try_complete_else_watch(op, timeout, [7]).expect("it is open");
        assert!(registration.id().is_some(), "it waits");
    }

    fn signal(&self) -> usize {
        self.purgatory.check_and_complete(&7)
    }

    /// Moves the clock and returns how the wait that is now over ended, if one is.
    fn after(&self, time: Duration) -> Option<(Outcome, NextStep)> {
        self.clock.advance(time);
        while self.purgatory.expire().more {}
        self.ends.borrow_mut().pop()
    }
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn joining(members: usize, joined: usize, pending: usize) -> Standing {
    Standing::Joining(Joining { members, joined, pending, arrivals: 0 })
}

#[test]
fn a_rebalance_is_over_when_all_known_members_await_their_answers() {
    // j1
    assert!(!decide(joining(3, 2, 0)));
    assert!(decide(joining(3, 3, 0)));
    assert!(decide(joining(0, 0, 0)), "when the last one has left too");
}

#[test]
fn an_id_that_was_handed_out_and_not_used_yet_holds_a_rebalance_up() {
    // j1
    assert!(!decide(joining(3, 3, 1)));
    assert!(!decide(joining(0, 0, 1)));
}

#[test]
fn the_last_join_or_the_removal_of_who_is_missing_ends_the_wait() {
    // j1 and j6
    for leaves in [false, true] {
        let coordinator = Coordinator::rebalancing(2);
        coordinator.group.change(|group| group.joined = 1);
        assert_eq!(coordinator.signal(), 0);
        coordinator.group.change(|group| if leaves { group.members = 1 } else { group.joined = 2 });
        assert_eq!(coordinator.signal(), 1);
        assert_eq!(coordinator.ends.take(), [(Outcome::Satisfied, NextStep::Generation)]);
        assert!(coordinator.purgatory.is_empty() && coordinator.purgatory.watched() == 0);
    }
}

#[test]
fn a_group_that_is_gone_ends_its_wait_at_once_an_initial_one_too() {
    // j2
    assert!(decide(Standing::Over));
    for initial in [None, Some(InitialDelay::new(DELAY, DELAY, 0))] {
        let end = Rc::new(Cell::new(None));
        let group = Rc::new(Group(RefCell::new(joining(2, 1, 0))));
        let slot = Rc::clone(&end);
        let op = DelayedJoin { group: Rc::clone(&group), initial, answer: move |end, _| slot.set(Some(end)) };
        let purgatory = Purgatory::builder("Rebalance").clock(ManualClock::new()).build();
        let _ = purgatory.try_complete_else_watch(op, DELAY, [7]).expect("it is open");
        assert_eq!(purgatory.check_and_complete(&7), 0);
        *group.0.borrow_mut() = Standing::Over;
        assert_eq!(purgatory.check_and_complete(&7), 1);
        assert_eq!(end.take(), Some(JoinEnd::Over(Outcome::Satisfied)));
        assert_eq!(next_step(group.join_standing()), NextStep::Nothing);
    }
}

#[test]
fn an_initial_wait_is_never_ended_by_members_that_join() {
    // j3
    let coordinator = Coordinator::beginning(DELAY, DELAY);
    for _ in 0..3 {
        assert_eq!(coordinator.signal(), 0);
        coordinator.group.arrive();
    }
    assert_eq!(coordinator.after(DELAY - ms(1)), None);
    assert_eq!(coordinator.after(ms(1)), Some((Outcome::Expired, NextStep::Generation)));
}

#[test]
fn a_delay_in_which_nobody_came_is_the_last() {
    // j4. Kafka: an empty group's first rebalance is put off by the delay.
    let coordinator = Coordinator::beginning(DELAY, ms(1000));
    assert_eq!(coordinator.after(DELAY / 2), None);
    assert_eq!(coordinator.after(DELAY / 2 - ms(1)), None);
    assert_eq!(coordinator.after(ms(1)), Some((Outcome::Expired, NextStep::Generation)));
    assert_eq!(coordinator.waits.get(), 1);
}

#[test]
fn a_delay_in_which_a_member_came_is_followed_by_another() {
    // j4. Kafka: the delay begins again when a new member joins during it.
    let coordinator = Coordinator::beginning(DELAY, ms(1000));
    assert_eq!(coordinator.after(DELAY - ms(1)), None);
    coordinator.group.arrive();
    assert_eq!(coordinator.after(ms(1)), None);
    assert_eq!(coordinator.waits.get(), 2);
    assert_eq!(coordinator.after(DELAY - ms(1)), None);
    assert_eq!(coordinator.after(ms(1)), Some((Outcome::Expired, NextStep::Generation)));
    assert_eq!(coordinator.waits.get(), 2);
}

#[test]
fn a_member_that_came_and_left_again_counts_as_one_that_came() {
    // j4
    let coordinator = Coordinator::beginning(DELAY, ms(1000));
    coordinator.group.arrive();
    coordinator.group.change(|group| {
        group.members -= 1;
        group.joined -= 1;
    });
    assert_eq!(coordinator.after(DELAY), None);
    assert_eq!(coordinator.after(DELAY), Some((Outcome::Expired, NextStep::Generation)));
}

#[test]
fn delays_add_up_to_the_rebalance_timeout_and_no_further() {
    // j4. Kafka: the rebalance is put off up to the rebalance timeout.
    let coordinator = Coordinator::beginning(DELAY, ms(250));
    for now in 1..250 {
        coordinator.group.arrive();
        assert_eq!(coordinator.after(ms(1)), None, "at {now}");
    }
    coordinator.group.arrive();
    assert_eq!(coordinator.after(ms(1)), Some((Outcome::Expired, NextStep::Generation)));
    assert_eq!(coordinator.waits.get(), 3, "100, 100 and 50");
}

#[test]
fn a_delay_is_not_longer_than_the_rebalance_timeout_and_may_be_zero() {
    // j4
    let short = InitialDelay::new(DELAY, ms(30), 1);
    assert_eq!((short.timeout(), short.next(2)), (ms(30), None));
    let coordinator = Coordinator::beginning(Duration::ZERO, ms(1000));
    assert_eq!(coordinator.after(Duration::ZERO), Some((Outcome::Expired, NextStep::Generation)));
    let endless = InitialDelay::new(DELAY, Duration::MAX, 1).next(2).expect("there is time left");
    assert_eq!(endless.timeout(), DELAY);
}

#[test]
fn only_an_initial_wait_whose_time_is_up_begins_again() {
    // j4
    for outcome in [Outcome::Forced, Outcome::Shutdown, Outcome::Satisfied, Outcome::Cancelled] {
        let group = Rc::new(Group(RefCell::new(joining(1, 1, 0))));
        let op = DelayedJoin::initial(Rc::clone(&group), InitialDelay::new(DELAY, ms(1000), 0), |end, _| {
            assert_eq!(end, JoinEnd::Over(outcome));
        });
        group.arrive();
        op.on_complete(outcome);
    }
}

#[test]
fn what_comes_next_depends_on_who_is_left_and_not_on_how_the_wait_ended() {
    // j5a to j5d
    assert_eq!(next_step(Standing::Over), NextStep::Nothing);
    assert_eq!(next_step(joining(0, 0, 0)), NextStep::Empty);
    assert_eq!(next_step(joining(0, 0, 2)), NextStep::Empty, "ids are no members");
    assert_eq!(next_step(joining(2, 0, 0)), NextStep::WaitAgain);
    assert_eq!(next_step(joining(2, 1, 0)), NextStep::Generation);
}

#[test]
fn members_that_have_not_joined_in_time_are_left_behind() {
    // j5, expired
    let coordinator = Coordinator::rebalancing(3);
    coordinator.group.change(|group| group.joined = 2);
    assert_eq!(coordinator.after(Duration::from_secs(60) - ms(1)), None);
    assert_eq!(coordinator.after(ms(1)), Some((Outcome::Expired, NextStep::Generation)));
    assert!(matches!(coordinator.group.join_standing(), Standing::Joining(Joining { members: 2, .. })));
    let coordinator = Coordinator::rebalancing(3);
    assert_eq!(coordinator.after(Duration::from_secs(60)), Some((Outcome::Expired, NextStep::Empty)));
}
