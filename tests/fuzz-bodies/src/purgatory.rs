//! Scripts on a purgatory, held against the list that the property tests use too.

use arbitrary::{Result, Unstructured};
use ixion::testing::purgatory_script::KEYS;
use ixion::testing::{Plan, PurgatoryScript, PurgatoryStep};
use std::sync::Arc;
use std::time::Duration;

/// After each step everything is compared, so a script takes the square of its length.
const MAX_STEPS: usize = 120;
/// More than these could tire a holder.
const MAX_ASKS: usize = 12;
/// The last tick at which a clock can stand: the one after it is *never*.
const LAST: u64 = u64::MAX - 1;

/// Runs the script that `bytes` stand for.
///
/// # Panics
///
/// If the purgatory differs from the list.
pub fn purgatory(bytes: &[u8]) {
    if let Ok(script) = script(&mut Unstructured::new(bytes)) {
        script.run();
    }
}

fn script(bytes: &mut Unstructured<'_>) -> Result<PurgatoryScript> {
    let start = ticks(bytes)?.min(LAST);
    let shards = bytes.int_in_range(1..=4)?;
    let capacity = match bytes.int_in_range(0..=9)? {
        limit @ 0..=5 => Some(limit),
        _ => None,
    };
    let mut steps = Vec::new();
    while !bytes.is_empty() && steps.len() < MAX_STEPS {
        steps.push(step(bytes)?);
    }
    Ok(PurgatoryScript { start, shards, capacity, steps, ..PurgatoryScript::default() })
}

fn step(bytes: &mut Unstructured<'_>) -> Result<PurgatoryStep> {
    Ok(match bytes.int_in_range(0..=23)? {
        kind @ 0..=6 => PurgatoryStep::Register(Arc::new(plan(bytes, kind < 3)?)),
        7 => PurgatoryStep::Set(key(bytes)?),
        8 | 9 => PurgatoryStep::Clear(key(bytes)?),
        10 => PurgatoryStep::Check(key(bytes)?),
        11 => PurgatoryStep::CheckUpTo(key(bytes)?, number(bytes)?),
        12 => PurgatoryStep::Force(pick(bytes)?),
        13 => PurgatoryStep::ForceKey(key(bytes)?),
        14 => PurgatoryStep::Cancel(pick(bytes)?),
        15 => PurgatoryStep::CancelFirst(key(bytes)?),
        16 => PurgatoryStep::CancelKey(key(bytes)?),
        17 => PurgatoryStep::Reset(pick(bytes)?, duration(bytes)?),
        18 => PurgatoryStep::ResetKey(key(bytes)?, duration(bytes)?),
        19 | 20 => PurgatoryStep::Advance(duration(bytes)?),
        21 => PurgatoryStep::Expire,
        22 => PurgatoryStep::Shutdown,
        _ => PurgatoryStep::HandBack,
    })
}

fn plan(bytes: &mut Unstructured<'_>, at_numbers: bool) -> Result<Plan> {
    let (timeout, keys, then) = (duration(bytes)?, keys(bytes)?, then(bytes)?);
    let mut plan = Plan { timeout, keys, then, ..Plan::default() };
    if at_numbers {
        for _ in &plan.keys {
            let at = if bytes.ratio(3, 4)? { Some(number(bytes)?) } else { None };
            plan.at.push(at);
        }
        plan.asks = (0..bytes.int_in_range(0..=MAX_ASKS)?).map(|_| number(bytes)).collect::<Result<_>>()?;
    }
    Ok(plan)
}

/// What is waited for at a key: small, or any.
fn number(bytes: &mut Unstructured<'_>) -> Result<u64> {
    if bytes.ratio(1, 8)? { bytes.arbitrary() } else { bytes.int_in_range(0..=9) }
}

/// A few ticks, some around the boundaries of the wheel's levels, or any number.
fn ticks(bytes: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match bytes.int_in_range(0..=4)? {
        0 | 1 => bytes.int_in_range(0..=3)?,
        2 => (1u64 << (6 * bytes.int_in_range(0..=10)?)) + bytes.int_in_range(0..=4)? - 1,
        3 => u64::MAX - bytes.int_in_range(0..=3)?,
        _ => bytes.arbitrary()?,
    })
}

fn duration(bytes: &mut Unstructured<'_>) -> Result<Duration> {
    Ok(match ticks(bytes)? {
        u64::MAX => Duration::MAX,
        ticks => Duration::from_millis(ticks),
    })
}

fn keys(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let count = bytes.int_in_range(0..=3)?;
    (0..count).map(|_| key(bytes)).collect()
}

fn key(bytes: &mut Unstructured<'_>) -> Result<u8> {
    bytes.int_in_range(0..=KEYS - 1)
}

/// What a callback does.
fn then(bytes: &mut Unstructured<'_>) -> Result<Vec<PurgatoryStep>> {
    Ok(match bytes.int_in_range(0..=3)? {
        0 => {
            let key = key(bytes)?;
            vec![PurgatoryStep::Set(key), PurgatoryStep::Check(key)]
        }
        1 => vec![PurgatoryStep::ForceKey(key(bytes)?)],
        _ => Vec::new(),
    })
}

fn pick(bytes: &mut Unstructured<'_>) -> Result<usize> {
    Ok(bytes.arbitrary::<u8>()?.into())
}
