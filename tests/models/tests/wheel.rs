//! The wheel, which is pure, has no races: every short script round the boundaries of its levels, against a sorted list.
#![cfg(ixion_loom)]

use ixion::testing::wheel_model::When::{Ago, In};
use ixion::testing::wheel_model::{Script, Step};

/// A slot of level 0 is a tick; of level 1, this many; of level 2, the square of it.
const SLOTS: u64 = 64;

const STEPS: [Step; 11] = [
    Step::Start(In(1)),
    Step::Start(In(SLOTS - 1)),
    Step::Start(In(SLOTS)),
    Step::Start(In(SLOTS * SLOTS)),
    Step::Start(Ago(1)),
    Step::Stop(0),
    Step::Restart(0, In(SLOTS)),
    Step::Pop(In(SLOTS)),
    Step::Advance(In(1)),
    Step::Advance(In(SLOTS - 1)),
    Step::Advance(In(SLOTS * SLOTS)),
];

#[test]
fn every_short_script_is_as_a_sorted_list_says() {
    const LENGTH: u32 = 4;
    let mut scripts = 0;
    for start in [0, SLOTS - 1, SLOTS * SLOTS - 1, u64::MAX - SLOTS] {
        for number in 0..STEPS.len().pow(LENGTH) {
            let digit = |place| number / STEPS.len().pow(place) % STEPS.len();
            let steps = (0..LENGTH).map(|place| STEPS[digit(place)]).collect();
            Script { start, steps }.run();
            scripts += 1;
        }
    }
    assert_eq!(scripts, 4 * 11usize.pow(LENGTH));
}
