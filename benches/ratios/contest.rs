//! Peers that do the same work in turns: A B C, A B C, A B C.

use ixion_bench::support::median;

/// One of those that are compared: its name, and a round of its work, in nanoseconds for each timer.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    round: Box<dyn FnMut() -> f64>,
}

impl Contestant {
    pub(crate) fn new(name: &'static str, round: impl FnMut() -> f64 + 'static) -> Self {
        Contestant { name, round: Box::new(round) }
    }
}

/// What one of them took.
pub(crate) struct Score {
    pub(crate) name: &'static str,
    /// In the first round: its memory was not there yet.
    pub(crate) cold: Took,
    /// In the rounds after it: medians.
    pub(crate) warm: Took,
}

/// A time, and the same as times of what the first contestant took in the same round.
#[derive(Clone, Copy)]
pub(crate) struct Took {
    pub(crate) nanoseconds: f64,
    pub(crate) times: f64,
}

/// A round of each that does not count, and then so many that do. A machine that is slower for a while is slower for all.
pub(crate) fn contest(contestants: impl IntoIterator<Item = Contestant>, rounds: usize) -> Vec<Score> {
    let mut contestants: Vec<Contestant> = contestants.into_iter().collect();
    let mut took: Vec<Vec<f64>> = vec![Vec::new(); contestants.len()];
    for _ in 0..=rounds {
        for (contestant, took) in contestants.iter_mut().zip(&mut took) {
            took.push((contestant.round)());
        }
    }
    let score = |(contestant, took_it): (&Contestant, &Vec<f64>)| {
        let times: Vec<f64> = took_it.iter().zip(&took[0]).map(|(own, first)| own / first).collect();
        Score {
            name: contestant.name,
            cold: Took { nanoseconds: took_it[0], times: times[0] },
            warm: Took { nanoseconds: median(&took_it[1..]), times: median(&times[1..]) },
        }
    };
    contestants.iter().zip(&took).map(score).collect()
}
