//! Durable stores whose workers are killed at random points, and the server too: run by the program, which fails if anything is
//! lost or comes back. `IXION_KILLS` and `IXION_SERVER_KILLS` say how often, if not a few times.
#![cfg(unix)]

use ixion_redis_server::Server;
use std::env;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Of a demo whose server is killed, how many items it has, and how many of its workers are killed meanwhile.
const ITEMS: usize = 5000;
const KILLS: usize = 10;
/// What a server needs to keep all that it has answered.
const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

fn times(variable: &str, few: usize) -> usize {
    env::var(variable).map_or(few, |times| times.parse().expect("a number"))
}

fn demo(items: usize, kills: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion-retry"));
    command.args(["demo", "--items", &items.to_string(), "--kills", &kills.to_string()]);
    command
}

fn loses_nothing(output: &Output, items: usize, kills: usize) {
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    for (name, number) in [
        ("workers killed", kills),
        ("items pushed", items),
        ("delivered again after the ack", 0),
        ("lost", 0),
    ] {
        let row = format!("{name:<40} {number:>8}\n");
        assert!(said.contains(&row), "no {row:?} in\n{said}");
    }
}

/// Kills the server so often while a demo runs on it, if that takes so long. Returns how often, and what the demo said.
fn kill_server(args: &[&str], most: usize, random: &mut fastrand::Rng) -> (usize, Output) {
    let mut server = Server::start_with(args).unwrap();
    let mut demo = demo(ITEMS, KILLS);
    demo.args(["--store", &server.url()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut demo = demo.spawn().expect("the program runs");
    let mut kills = 0;
    while kills < most {
        thread::sleep(Duration::from_millis(random.u64(10..200)));
        if demo.try_wait().unwrap().is_some() {
            break;
        }
        server.kill().unwrap();
        thread::sleep(Duration::from_millis(random.u64(..20)));
        server.restart().unwrap();
        kills += 1;
    }
    (kills, demo.wait_with_output().unwrap())
}

#[test]
fn a_file_whose_worker_is_killed_again_and_again_loses_nothing() {
    let kills = times("IXION_KILLS", 100);
    loses_nothing(&demo(10 * kills, kills).output().expect("the program runs"), 10 * kills, kills);
}

#[test]
fn a_server_whose_workers_are_killed_again_and_again_loses_nothing() {
    let (server, kills) = (Server::start().unwrap(), times("IXION_KILLS", 100));
    let output = demo(10 * kills, kills).args(["--store", &server.url()]).output().expect("the program runs");
    loses_nothing(&output, 10 * kills, kills);
    assert_eq!(server.ask("DBSIZE").unwrap(), "0", "it has not tidied up");
}

#[test]
fn a_server_that_is_killed_again_and_again_loses_nothing() {
    let (mut kills, least) = (0, times("IXION_SERVER_KILLS", 5));
    let mut random = fastrand::Rng::with_seed(1);
    while kills < least {
        let (killed, output) = kill_server(DURABLE, 10.min(least - kills), &mut random);
        loses_nothing(&output, ITEMS, KILLS);
        kills += killed;
    }
}

/// Shows that what a server loses is missed.
#[test]
fn a_server_that_keeps_nothing_is_found_out() {
    let (kills, output) = kill_server(&[], 3, &mut fastrand::Rng::with_seed(1));
    assert!(kills > 0, "it was done before");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Shows that the ledger sees a broken promise.
#[test]
fn a_worker_that_says_falsely_that_an_item_is_done_is_found_out() {
    let output = demo(1000, 10).arg("--lie").output().expect("the program runs");
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complained}");
    assert!(complained.contains("delivered again after the ack"), "{complained}");
}
