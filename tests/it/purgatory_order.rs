//! Random scripts on a purgatory, held against the model that asks one after the other.

use ixion::testing::{Plan, PurgatoryScript, PurgatoryStep as Do};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// Where clocks start: at zero, around the boundaries of the wheel's levels, and near the end of time.
const STARTS: [u64; 8] =
    [0, 60, (1 << 30) - 70, 1 << 36, (1 << 42) - 1, 1 << 63, u64::MAX - 5000, u64::MAX - 3];

fn timeout() -> impl Strategy<Value = Duration> {
    let ms = prop_oneof![
        4 => 0u64..4,
        4 => 60u64..70,
        2 => 4090u64..4100,
        1 => 0u64..1 << 40,
    ];
    prop_oneof![11 => ms.prop_map(Duration::from_millis), 1 => Just(Duration::MAX)]
}

/// What a callback does.
fn then() -> impl Strategy<Value = Vec<Do>> {
    prop_oneof![
        4 => Just(Vec::new()),
        1 => (0u8..6).prop_map(|key| vec![Do::Set(key), Do::Check(key)]),
        1 => (0u8..6).prop_map(|key| vec![Do::ForceKey(key)]),
    ]
}

fn step() -> impl Strategy<Value = Do> {
    let key = || 0u8..6;
    prop_oneof![
        30 => (timeout(), vec(key(), 0..4), then())
            .prop_map(|(timeout, keys, then)| {
                Do::Register(Arc::new(Plan { timeout, keys, then, ..Plan::default() }))
            }),
        4 => key().prop_map(Do::Set),
        6 => key().prop_map(Do::Clear),
        6 => key().prop_map(Do::Check),
        3 => any::<usize>().prop_map(Do::Force),
        1 => key().prop_map(Do::ForceKey),
        3 => any::<usize>().prop_map(Do::Cancel),
        2 => key().prop_map(Do::CancelFirst),
        1 => key().prop_map(Do::CancelKey),
        4 => (any::<usize>(), timeout()).prop_map(|(pick, timeout)| Do::Reset(pick, timeout)),
        2 => (key(), timeout()).prop_map(|(key, timeout)| Do::ResetKey(key, timeout)),
        8 => timeout().prop_map(Do::Advance),
        8 => Just(Do::Expire),
    ]
}

fn script(shards: impl Strategy<Value = usize>) -> impl Strategy<Value = PurgatoryScript> {
    let last = prop_oneof![Just(Do::Shutdown), Just(Do::HandBack), Just(Do::Expire)];
    let capacity = prop_oneof![3 => Just(None), 1 => (0usize..6).prop_map(Some)];
    let parts =
        (prop::sample::select(&STARTS[..]), shards, capacity, vec(step(), 0..60), last, vec(step(), 0..4));
    parts.prop_map(|(start, shards, capacity, mut steps, last, after)| {
        steps.push(last);
        steps.extend(after);
        PurgatoryScript { start, shards, capacity, steps, ..PurgatoryScript::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn with_one_shard_everything_happens_in_the_models_order(script in script(Just(1usize))) {
        script.run();
    }

    #[test]
    fn with_more_shards_everything_happens_that_happens_in_the_model(script in script(2usize..9)) {
        script.run();
    }
}
