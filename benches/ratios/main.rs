//! ixion's wheel beside what its users use today: one table, all in one run and in turns.
//!
//! `cargo bench --bench ratios` takes minutes; with `-- --short` it leaves out rows and takes half a minute, with
//! `-- --huge` it has rows of ten million timers, too. `-- 'move one'` has the rows with these words, and
//! `-- /10000/` those of so many timers. The table goes to the standard output, in Markdown.

#![allow(missing_docs, reason = "a program")]

mod contest;
mod rows;
mod scaled;
mod targets;

use contest::{Score, Took};
use ixion_bench::support::{Table, figure};
use rows::{Row, Work, plan};
use targets::target;

fn main() {
    let rows: Vec<Row> = plan().into_iter().map(|(work, n)| work.run(n)).collect();
    println!("### Timers: ixion and its rivals\n");
    println!(
        "What one timer costs ixion, in nanoseconds, and each of the others as times of that: above 1 is slower than \
         ixion. Delays are uniform in 1 ms to 1 min where nothing else is said; what a timer carries has a `Drop`. \
         Medians of rounds that were taken in turns. *Harness*: what the loop round the timers costs by itself; it is in \
         all the others. A `*` marks what misses its target.\n"
    );
    print!("{}", ratios(&rows));
    println!("\n### Timers: in other languages\n\n{}\n", scaled::ABOUT);
    print!("{}", scaled::scaled(&rows));
}

/// The columns, in the order of `each_peer`; two threads have fewer.
const RIVALS: [&str; 6] = ["tokio sleep", "DelayQueue", "hhwt", "nexus-timer", "slab + heap", "btreemap"];

fn ratios(rows: &[Row]) -> Table {
    let head = ["what", "timers", "ixion, ns"].into_iter().chain(RIVALS).chain(["harness, ns", "target"]);
    let mut table = Table::new(head);
    for row in rows {
        if row.work == Work::Burst {
            let title = format!("{}, in new memory", row.work.title());
            table.row(cells(row, title, |score| score.cold, &[]));
        }
        table.row(cells(row, row.work.title(), |score| score.warm, target(row.work, row.n)));
    }
    table
}

fn cells(row: &Row, title: String, took: fn(&Score) -> Took, target: &[(&str, f64)]) -> Vec<String> {
    let find = |name| row.scores.iter().find(|score| score.name == name).map(took);
    let nanoseconds = |name| find(name).map_or("–".to_owned(), |took| figure(took.nanoseconds));
    let mut cells = vec![title, size(row.n), nanoseconds("ixion")];
    cells.extend(RIVALS.map(|name| {
        find(name).map_or("–".to_owned(), |took| {
            let misses = target.iter().any(|(rival, least)| *rival == name && took.times < *least);
            format!("{}x{}", figure(took.times), if misses { "*" } else { "" })
        })
    }));
    cells.extend([nanoseconds("harness"), targets::text(target)]);
    cells
}

fn size(n: usize) -> String {
    match n {
        0 => "–".to_owned(),
        n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n => format!("{}k", n / 1000),
    }
}
