//! What the wheel is meant to reach against each rival, set before it was measured.

use crate::rows::Work;

const SLEEP: &str = "tokio sleep";
const QUEUE: &str = "DelayQueue";
const HHWT: &str = "hhwt";
const HEAP: &str = "slab + heap";
const TREE: &str = "btreemap";

/// At least so many times what ixion takes. None: there is no target for that many timers.
pub(crate) fn target(work: Work, n: usize) -> &'static [(&'static str, f64)] {
    match (work, n) {
        (Work::Churn, 10_000) => &[(SLEEP, 4.0), (QUEUE, 4.0), (HHWT, 4.0), (HEAP, 1.3)],
        (Work::Churn, 100_000) => &[(SLEEP, 11.0), (QUEUE, 8.0), (HHWT, 11.0)],
        (Work::Churn, 1_000_000) => &[(SLEEP, 4.5), (QUEUE, 4.5), (HHWT, 7.0), (HEAP, 1.2)],
        (Work::Churn, 10_000_000) => &[(SLEEP, 5.0), (QUEUE, 4.0), (HHWT, 4.6)],
        (Work::ChurnInTime, 100_000) => &[(QUEUE, 4.0)],
        (Work::Expire, 10_000) => &[(SLEEP, 30.0), (HHWT, 3.5), (HEAP, 1.1)],
        (Work::Expire, 100_000) => &[(SLEEP, 10.0), (HHWT, 6.0)],
        (Work::Expire, 1_000_000) => &[(SLEEP, 5.5), (QUEUE, 6.5), (HHWT, 4.8), (HEAP, 6.0), (TREE, 4.0)],
        (Work::Jump, 1_000_000) => &[(SLEEP, 5.4), (QUEUE, 6.7), (HHWT, 5.3), (TREE, 4.3)],
        (Work::Burst, 1_000_000) => &[(SLEEP, 7.0), (QUEUE, 5.0), (HHWT, 16.0)],
        (Work::Restart, 1_000_000) => &[(SLEEP, 3.9), (QUEUE, 6.7), (HHWT, 8.0)],
        (Work::TwoThreads, 20_000) => &[(SLEEP, 2.2), (HHWT, 10.0)],
        (Work::TwoThreads, 1_000_000) => &[(SLEEP, 2.3), (QUEUE, 3.7), (HHWT, 8.0), (HEAP, 1.4)],
        _ => &[],
    }
}

/// In words, rivals with the same number together.
pub(crate) fn text(target: &[(&str, f64)]) -> String {
    if target.is_empty() {
        return "–".to_owned();
    }
    let mut parts: Vec<(f64, Vec<&str>)> = Vec::new();
    for (rival, times) in target {
        match parts.iter_mut().find(|part| part.0 == *times) {
            Some(part) => part.1.push(rival),
            None => parts.push((*times, vec![rival])),
        }
    }
    parts.sort_by(|one, other| other.0.total_cmp(&one.0));
    let parts: Vec<String> =
        parts.iter().map(|(times, rivals)| format!("{times}x {}", rivals.join(", "))).collect();
    format!("at least {}", parts.join("; "))
}
