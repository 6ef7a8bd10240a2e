//! Scripts on a timing wheel, held against the sorted list that the property tests use too.

use arbitrary::{Result, Unstructured};
use ixion::testing::{Script, Step, When};

/// Longer scripts find nothing that shorter ones don't, and the model is a sorted list.
const MAX_STEPS: usize = 200;

/// Runs the script that `bytes` stand for.
///
/// # Panics
///
/// If the wheel differs from the sorted list.
pub fn wheel(bytes: &[u8]) {
    if let Ok(script) = script(&mut Unstructured::new(bytes)) {
        script.run();
    }
}

fn script(bytes: &mut Unstructured<'_>) -> Result<Script> {
    let start = bytes.arbitrary()?;
    let mut steps = Vec::new();
    while !bytes.is_empty() && steps.len() < MAX_STEPS {
        steps.push(step(bytes)?);
    }
    Ok(Script { start, steps })
}

fn step(bytes: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match bytes.int_in_range(0..=9)? {
        0..=2 => Step::Start(when(bytes)?),
        3 => Step::StartMany(when(bytes)?, bytes.arbitrary()?),
        4 => Step::Stop(bytes.arbitrary::<u8>()?.into()),
        5 => Step::Restart(bytes.arbitrary::<u8>()?.into(), when(bytes)?),
        6 => Step::Advance(when(bytes)?),
        7 => Step::Pop(when(bytes)?),
        8 => Step::Peek(when(bytes)?),
        _ => Step::PopWithin(when(bytes)?, bytes.arbitrary()?),
    })
}

fn when(bytes: &mut Unstructured<'_>) -> Result<When> {
    // Around the boundaries of the wheel's levels, or anywhere.
    let distance = match bytes.int_in_range(0..=3)? {
        0 => u64::from(bytes.arbitrary::<u8>()?),
        1 => (1u64 << (6 * bytes.int_in_range(0..=10)?))
            .saturating_add(bytes.int_in_range(0..=4)?)
            .saturating_sub(2),
        2 => u64::from(bytes.arbitrary::<u32>()?),
        _ => bytes.arbitrary()?,
    };
    Ok(match bytes.int_in_range(0..=3)? {
        0 => When::At(distance),
        1 => When::Ago(distance),
        _ => When::In(distance),
    })
}
