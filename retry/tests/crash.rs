//! Durable stores whose workers are killed at random points: run by the program, which fails if anything is lost or comes back.
//! `IXION_KILLS` says how often, if not a few times.
#![cfg(unix)]

use std::env;
use std::process::{Command, Output};

/// Runs the demo with some items for each kill.
fn demo(args: &[&str]) -> (Output, usize) {
    let kills = env::var("IXION_KILLS").map_or(100, |kills| kills.parse().expect("a number"));
    let output = Command::new(env!("CARGO_BIN_EXE_ixion-retry"))
        .args(["demo", "--items", &(10 * kills).to_string(), "--kills", &kills.to_string()])
        .args(args)
        .output()
        .expect("the program runs");
    (output, kills)
}

fn loses_nothing(args: &[&str]) {
    let (output, kills) = demo(args);
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    for (name, number) in [
        ("workers killed", kills),
        ("items pushed", 10 * kills),
        ("delivered again after the ack", 0),
        ("lost", 0),
    ] {
        let row = format!("{name:<40} {number:>8}\n");
        assert!(said.contains(&row), "no {row:?} in\n{said}");
    }
}

#[test]
fn a_file_whose_worker_is_killed_again_and_again_loses_nothing() {
    loses_nothing(&[]);
}

/// Shows that the ledger sees a broken promise.
#[test]
fn a_worker_that_says_falsely_that_an_item_is_done_is_found_out() {
    let (output, _) = demo(&["--lie"]);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complained}");
    assert!(complained.contains("delivered again after the ack"), "{complained}");
}
