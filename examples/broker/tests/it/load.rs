//! The programs that load a broker, in little: they check the broker, and here it is checked that they do.

use std::process::{Command, Output};

fn load(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion-broker"));
    command.arg("load").args(args).output().expect("it can be started")
}

/// What a program says that has found nothing wrong.
fn passes(part: &str) -> String {
    let output = load(&[part, "--short"]);
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    said.into_owned()
}

/// The numbers in the line that begins with these words.
fn numbers(said: &str, words: &str) -> Vec<u64> {
    let line =
        said.lines().find(|line| line.starts_with(words)).unwrap_or_else(|| panic!("{words} in {said}"));
    line[words.len()..].split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn nothing_acknowledged_is_lost_when_a_follower_is_killed_and_another_stopped() {
    let said = passes("faults");
    let (sent, acknowledged) = (numbers(&said, "batches sent"), numbers(&said, "batches acknowledged"));
    assert_eq!(sent, acknowledged, "{said}");
    assert!(sent.iter().all(|count| *count > 10), "{said}");
    assert!(said.contains(": 0 lost, 0 twice,"), "{said}");
}

#[test]
fn members_that_beat_stay_and_those_that_fall_silent_go() {
    let said = passes("members");
    assert!(
        said.contains("the 20 that fell silent were evicted, none early, and nobody who was heard"),
        "{said}"
    );
}

#[test]
fn hostile_clients_are_cut_off_and_take_only_so_much_memory() {
    let said = passes("hostile");
    assert!(said.contains("all others were cut off"), "{said}");
}

#[test]
fn more_connections_than_files_may_be_open_are_an_error_that_says_so() {
    // The shell lowers the limit for itself and what it starts.
    let program = env!("CARGO_BIN_EXE_ixion-broker");
    let line = format!("ulimit -n 250 && exec {program} load polls --short");
    let output = Command::new("sh").args(["-c", &line]).output().expect("there is a shell");
    assert!(!output.status.success());
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(complained.contains("300 connections take 500 open files, and 250 are allowed"), "{complained}");
}
