//! Replays the corpora of the fuzz targets: what fuzzing has found stays found, without a fuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ixion_fuzz_bodies::BODIES;

/// A corpus is for the tests; whoever fuzzes for hours keeps a larger one of their own.
const MAX_FILES: usize = 100;
const MAX_BYTES: usize = 50 << 10;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The names in a directory.
fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.expect("it can be read").file_name().into_string().expect("plain")).collect()
}

/// The inputs of a target, by their names.
fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let corpus = fuzz().join("corpus").join(target);
    names(&corpus)
        .into_iter()
        .map(|name| (name.clone(), fs::read(corpus.join(name)).expect("it can be read")))
        .collect()
}

fn replay(target: &str) {
    let (_, body) = BODIES.iter().find(|(name, _)| *name == target).expect("it is a target");
    let inputs = inputs(target);
    let bytes: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(!inputs.is_empty() && bytes > 0, "the corpus of {target} is empty");
    assert!(
        inputs.len() <= MAX_FILES && bytes <= MAX_BYTES,
        "{} files and {bytes} bytes for {target}; `cargo fuzz cmin` makes them fewer",
        inputs.len()
    );
    for (name, bytes) in inputs {
        // What a test prints is shown if it fails: the input that failed is the last.
        println!("fuzz/corpus/{target}/{name}");
        body(&bytes);
    }
}

#[test]
fn the_corpus_of_the_wheel_finds_nothing() {
    replay("wheel");
}

#[test]
fn the_corpus_of_the_purgatory_finds_nothing() {
    replay("purgatory");
}

#[test]
fn the_corpus_of_the_fetch_finds_nothing() {
    replay("kafka_fetch");
}

#[test]
fn the_corpus_of_the_frames_finds_nothing() {
    replay("broker_frame");
}

#[test]
fn every_target_has_a_body_and_a_corpus() {
    let bodies: BTreeSet<String> = BODIES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let targets: BTreeSet<String> =
        names(&fuzz().join("fuzz_targets")).iter().map(|name| name.replace(".rs", "")).collect();
    assert_eq!(bodies, targets);
    assert_eq!(bodies, names(&fuzz().join("corpus")));
}

#[test]
fn the_corpus_of_the_frames_has_every_request_and_frames_that_are_none() {
    let decoded: Vec<_> =
        inputs("broker_frame").iter().map(|(_, frame)| ixion_broker::testing::decode(frame)).collect();
    let keys: BTreeSet<i16> = decoded.iter().flatten().map(|(key, _)| *key).collect();
    assert_eq!(keys, ixion_broker::testing::served_keys().into_iter().collect());
    assert!(decoded.iter().any(Result::is_err));
}
