//! The queue in a file, whose worker is killed at random points: run by the program, which fails if anything is lost or comes
//! back.
#![cfg(unix)]

use std::process::Command;

#[test]
fn a_worker_that_is_killed_again_and_again_loses_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_ixion-retry"))
        .args(["demo", "--items", "1000", "--kills", "25"])
        .output()
        .expect("the program runs");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.matches("killed after").count() >= 5, "it was done before it was killed:\n{said}");
    for line in [
        "pushed                                         1000",
        "lost                                              0",
    ] {
        assert!(said.contains(line), "no {line:?} in\n{said}");
    }
}
