//! Timers that cannot run in this program, in Java, Go and C.
//!
//! Each was measured once, with the same work, beside a rival that is here too: what it takes as times of that rival,
//! multiplied by what the rival takes as times of ixion here, is what it would take as times of ixion.

use crate::rows::{Row, Work};
use crate::{size, targets};
use ixion_bench::support::{Table, figure};

/// In the order of the columns.
const NAMES: [&str; 5] = ["Kafka", "Netty", "Java's executor", "Go", "timeout.c"];

/// Of that other run, in nanoseconds; 0 was not measured.
struct Figures {
    work: Work,
    n: usize,
    rival: &'static str,
    rival_took: f64,
    took: [f64; 5],
    /// At least so many times what ixion takes; 0 is no target.
    target: [f64; 5],
}

const QUEUE: &str = "DelayQueue";
const SLEEP: &str = "tokio sleep";

#[rustfmt::skip]
const FIGURES: &[Figures] = &[
    Figures { work: Work::Churn, n: 10_000, rival: QUEUE, rival_took: 95.0, took: [101.0, 145.0, 158.0, 217.0, 12.6], target: [4.0, 0.0, 0.0, 0.0, 0.5] },
    Figures { work: Work::Churn, n: 100_000, rival: QUEUE, rival_took: 300.0, took: [399.0, 227.0, 623.0, 503.0, 20.0], target: [11.0, 6.0, 0.0, 0.0, 0.0] },
    Figures { work: Work::Churn, n: 1_000_000, rival: QUEUE, rival_took: 612.0, took: [1563.0, 1882.0, 5948.0, 815.0, 135.0], target: [12.0, 14.0, 45.0, 6.0, 0.0] },
    Figures { work: Work::TwoThreads, n: 20_000, rival: SLEEP, rival_took: 149.8, took: [205.0, 234.1, 166.1, 259.0, 0.0], target: [3.0, 3.5, 0.0, 3.8, 0.0] },
    Figures { work: Work::TwoThreads, n: 1_000_000, rival: SLEEP, rival_took: 647.6, took: [939.7, 835.2, 2687.9, 823.9, 0.0], target: [3.4, 3.0, 0.0, 3.0, 0.0] },
    Figures { work: Work::Burst, n: 1_000_000, rival: QUEUE, rival_took: 51.0, took: [72.0, 113.0, 133.0, 244.0, 4.9], target: [7.0, 11.0, 0.0, 24.0, 0.0] },
    Figures { work: Work::Restart, n: 1_000_000, rival: QUEUE, rival_took: 640.0, took: [1486.0, 1822.0, 5475.0, 0.0, 254.0], target: [15.0, 19.0, 0.0, 0.0, 2.6] },
    Figures { work: Work::Expire, n: 10_000, rival: SLEEP, rival_took: 1978.0, took: [3261.0, 0.0, 0.0, 0.0, 81.0], target: [50.0, 0.0, 0.0, 0.0, 0.0] },
    Figures { work: Work::Expire, n: 100_000, rival: SLEEP, rival_took: 501.0, took: [1650.0, 0.0, 0.0, 0.0, 287.0], target: [33.0, 0.0, 0.0, 0.0, 0.0] },
    Figures { work: Work::Expire, n: 1_000_000, rival: QUEUE, rival_took: 602.0, took: [802.0, 0.0, 0.0, 0.0, 1160.0], target: [8.5, 0.0, 0.0, 0.0, 12.0] },
    Figures { work: Work::Jump, n: 1_000_000, rival: QUEUE, rival_took: 611.0, took: [691.0, 0.0, 0.0, 0.0, 691.0], target: [7.5, 0.0, 0.0, 0.0, 0.0] },
];

pub(crate) const ABOUT: &str = "Not run here, but scaled: the same work was measured once, on 2026-11-30, beside the \
    rival that is named, on a virtual machine with two cores (AMD EPYC, Linux 6.18). What each took there as times of that \
    rival is multiplied by what the rival takes here as times of ixion. Kafka: `SystemTimer` of commit 1eb7644349cb, \
    moved by hand. Netty 4.1.48: `HashedWheelTimer`, 512 slots of 1 ms. Java's executor: \
    `ScheduledThreadPoolExecutor`, remove on cancel, OpenJDK 17. Go 1.19: `AfterFunc` and `Stop`. timeout.c: \
    `wahern/timeout`, commit 671d204671. There the timers carried eight bytes without a destructor.";

pub(crate) fn scaled(rows: &[Row]) -> Table {
    let mut table = Table::new(["what", "timers"].into_iter().chain(NAMES).chain(["scaled by", "target"]));
    for row in rows {
        let Some(figures) = FIGURES.iter().find(|figures| figures.work == row.work && figures.n == row.n)
        else {
            continue;
        };
        let rival = row.scores.iter().find(|score| score.name == figures.rival).expect("it is a contestant");
        let mut cells = vec![row.work.title(), size(row.n)];
        cells.extend(figures.took.iter().zip(figures.target).map(|(took, target)| match took {
            0.0 => "–".to_owned(),
            took => {
                let times = took / figures.rival_took * rival.warm.times;
                format!("{}x{}", figure(times), if times < target { "*" } else { "" })
            }
        }));
        let target: Vec<(&str, f64)> =
            NAMES.into_iter().zip(figures.target).filter(|(_, times)| *times > 0.0).collect();
        cells.extend([figures.rival.to_owned(), targets::text(&target)]);
        table.row(cells);
    }
    table
}
