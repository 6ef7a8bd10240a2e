//! The rules of the house that no compiler holds: layers, seams, sizes, words. One test reads the repository; the others
//! plant a breach of each rule and demand that it is seen.

#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/source.rs"]
mod source;

use rules::{LAYERS, MAY_SLEEP, ROOT};
use source::{Source, paths};
use std::fs;
use std::path::Path;

/// Not ours, or not text.
const SKIPPED: &[&str] = &["target", ".git", "Cargo.lock", "artifacts", "corpus", "proptest-regressions"];

#[test]
fn the_repository_is_tidy() {
    let sources = repository();
    assert!(sources.iter().any(|source| source.path == "src/lib.rs"), "the library was read");
    let breaches: Vec<String> = sources.iter().flat_map(rules::check).collect();
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

#[test]
fn the_texts_name_only_what_exists() {
    let (sources, root) = (repository(), Path::new(env!("CARGO_MANIFEST_DIR")));
    let mut breaches = names::missing_tests(&sources);
    breaches.extend(names::dead_links(&sources, |file| root.join(file).exists()));
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

#[test]
fn a_name_of_no_test_is_seen() {
    let missing = |text: &str| {
        let code =
            "fn a_helper_of_the_tests() {}\n#[test]\nfn all_is_well_here() { a_helper_of_the_tests() }";
        let sources = [Source::new("tests/it/calm.rs", code), Source::new("src/guide/page.rs", text)];
        names::missing_tests(&sources).len()
    };
    assert_eq!(missing("//! `it::calm::all_is_well_here`, `calm::all_is_…`, `it: all_is_well_here`"), 0);
    assert_eq!(
        missing("//! `it::storm::all_is_well_here`, `it::calm::all_is_well_there`, `storm::all_is_…`"),
        3
    );
    assert_eq!(
        missing("//! `a_helper_of_the_tests`, `try_complete`, `Type::a_b_c_d`, `no name_of_any_test`"),
        0
    );
    assert_eq!(missing("//! `it::calm::a_helper_of_the_tests`, `a_helper_of_no_test`"), 2);
}

#[test]
fn a_link_that_leads_nowhere_is_seen() {
    let dead = |path: &str, text: &str| {
        names::dead_links(&[Source::new(path, text)], |file| file == Path::new("docs/page.md")).len()
    };
    assert_eq!(dead("docs/README.md", "[a](page.md), [b](page.md#part), [c](https://a.b), [d](#part)"), 0);
    assert_eq!(dead("docs/README.md", "[a](other.md) and [b](docs/page.md)"), 2);
    let file =
        |name| format!("//! [a]({}{name}) [b](crate::b)", "https://github.com/ixion-rs/ixion/blob/main/");
    assert_eq!((dead("src/lib.rs", &file("docs/page.md")), dead("src/lib.rs", &file("page.md"))), (0, 1));
}

#[test]
fn the_layers_go_only_down() {
    for (at, (module, allowed)) in LAYERS.iter().enumerate() {
        for used in allowed.iter().filter(|used| **used != ROOT) {
            assert!(
                LAYERS[..at].iter().any(|(name, _)| name == used),
                "`{module}` uses `{used}`, not below it"
            );
        }
    }
}

#[test]
fn every_example_is_short_and_run_by_the_tests_and_listed() {
    let sources = repository();
    let text = |path: &str| &*sources.iter().find(|source| source.path == path).expect("it is there").text;
    let (manifest, list) = (text("Cargo.toml"), text("examples/README.md"));
    let mut count = 0;
    for source in sources.iter().filter(|source| source.path.ends_with(".rs")) {
        let Some(path) = source.path.strip_prefix("examples/") else { continue };
        let (name, file) = path.split_once('/').unwrap_or((path.trim_end_matches(".rs"), "main.rs"));
        // One with a manifest is a package of its own, and longer.
        if sources.iter().any(|source| source.path == format!("examples/{name}/Cargo.toml")) {
            continue;
        }
        assert!(source.text.lines().count() < 150, "{path} is long for something that is read at a sitting");
        if file == "main.rs" {
            count += 1;
            assert!(source.text.contains("\n#[test]\n"), "{path} has no test");
            assert!(manifest.contains(&format!("name = \"{name}\"\ntest = true\n")), "{path} is not run");
            assert!(list.contains(&format!("]({path})")), "{path} is not listed in examples/README.md");
        }
    }
    assert!(count > 0, "the examples were read");
}

#[test]
fn a_use_of_a_higher_layer_is_seen() {
    seen(rules::layers, "src/wheel/mod.rs", "use crate::clock::Clock;", 1);
    seen(rules::layers, "src/tick.rs", "\nuse crate::{\n    sync::Mutex,\n    wheel,\n};", 2);
    seen(rules::layers, "src/clock.rs", "fn f() { crate::purgatory::g() }", 1);
    seen(rules::layers, "src/clock.rs", "use super::purgatory::Purgatory;", 1);
    seen(rules::layers, "src/wheel/level.rs", "use super::super::clock;", 1);
    seen(rules::layers, "src/purgatory/mod.rs", "use crate::expirer::Expirer;", 1);
    seen(rules::layers, "src/operation/mod.rs", "use crate::Purgatory;", 1);
    seen(rules::layers, "src/kafka/mod.rs", "use crate::purgatory::engine::Engine;", 1);
    seen(rules::layers, "src/future/mod.rs", "use crate::purgatory::engine::Engine;", 1);
}

#[test]
fn a_use_of_a_lower_layer_is_no_breach() {
    seen(
        rules::layers,
        "src/wheel/level.rs",
        "use super::Expired;\nuse crate::tick::Tick;\nuse crate::wheel::Id;",
        0,
    );
    seen(
        rules::layers,
        "src/kafka/fetch.rs",
        "use crate::kafka::ErrorCode;\nuse crate::{Clock, Outcome};",
        0,
    );
    seen(rules::layers, "src/future/mod.rs", "use crate::sync::Mutex;\nuse crate::{Outcome, defer};", 0);
    seen(rules::layers, "src/lib.rs", "pub use crate::expirer::Expirer;", 0);
    seen(
        rules::layers,
        "src/tick.rs",
        "/// See [`crate::wheel`].\n#[cfg(test)]\nmod t { use crate::wheel::W; }",
        0,
    );
}

#[test]
fn a_module_without_a_place_in_the_layers_is_seen() {
    seen(rules::layers, "src/helpers.rs", "", 1);
    seen(rules::layers, "src/helpers/mod.rs", "", 1);
}

#[test]
fn a_lock_or_a_clock_in_a_pure_module_is_seen() {
    seen(rules::pure, "src/wheel/mod.rs", "use alloc::sync::Arc;\nuse core::sync::atomic;", 2);
    seen(rules::pure, "src/wheel/mod.rs", "use std::fmt;\nfn f() { std::mem::take(g()) }", 2);
    seen(rules::pure, "src/tick.rs", "use core::{fmt, time::{Duration, Instant}};", 1);
    seen(rules::pure, "src/alarm.rs", "use std::sync::Arc;", 0);
}

#[test]
fn a_reading_of_time_outside_the_clock_is_seen() {
    seen(rules::time, "src/expirer.rs", "fn f() { std::time::Instant::now(); }", 1);
    seen(rules::time, "src/alarm.rs", "use std::time::SystemTime as Wall;", 1);
    seen(rules::time, "src/clock.rs", "fn f() { Instant::now(); }", 0);
}

#[test]
fn a_lock_or_an_atomic_outside_sync_is_seen() {
    seen(rules::locks, "src/alarm.rs", "use std::sync::{Arc, Mutex};", 1);
    seen(rules::locks, "src/alarm.rs", "use std::{fmt, sync::atomic::{AtomicBool, Ordering}};", 2);
    seen(rules::locks, "src/alarm.rs", "use std::sync::*;\nuse parking_lot::Condvar;", 2);
    seen(rules::locks, "src/alarm.rs", "use std::sync;\nuse std::sync::{self as s, Arc};", 2);
    seen(rules::locks, "src/wheel/mod.rs", "use shuttle::thread;", 1);
    seen(rules::locks, "src/sync.rs", "use std::sync::Condvar;", 0);
    seen(rules::locks, "src/sync/modelled.rs", "use shuttle::sync::Condvar;", 0);
    seen(rules::locks, "src/fault.rs", "use std::sync::OnceLock;", 0);
    seen(
        rules::locks,
        "src/alarm.rs",
        "use crate::sync::Mutex;\n#[cfg(test)]\nuse std::sync::Mutex as M;",
        0,
    );
}

#[test]
fn a_thread_that_is_started_outside_the_expirer_is_seen() {
    seen(rules::threads, "src/purgatory/mod.rs", "fn f() { std::thread::spawn(|| ()); }", 1);
    seen(rules::threads, "src/purgatory/mod.rs", "use std::thread::{self, Builder};", 1);
    seen(rules::threads, "src/expirer.rs", "fn f() { thread::Builder::new(); }", 0);
    seen(
        rules::threads,
        "src/purgatory/mod.rs",
        "#[cfg(test)]\nmod tests { fn f() { thread::spawn(g); } }",
        0,
    );
}

#[test]
fn unsafe_code_and_back_pointers_are_seen() {
    seen(rules::unsafe_and_weak, "src/wheel/mod.rs", "fn f() { unsafe { g() } }", 1);
    seen(rules::unsafe_and_weak, "src/expirer.rs", "use std::sync::{Arc, Weak};", 1);
    seen(rules::unsafe_and_weak, "src/lib.rs", "//! No `unsafe`.\n#![forbid(unsafe_code)]", 0);
}

#[test]
fn a_sleep_is_seen() {
    seen(rules::sleeps, "tests/it/main.rs", "fn f() { std::thread::sleep(D); tokio::time::sleep(D); }", 2);
    seen(rules::sleeps, "src/expirer.rs", "#[cfg(test)]\nmod tests { use std::{thread::{self, sleep}}; }", 1);
    seen(rules::sleeps, "examples/broker/src/main.rs", "fn f() { tokio::time::sleep(D) }", 0);
    for path in MAY_SLEEP {
        seen(rules::sleeps, path, "fn f() { thread::sleep(D) }", 0);
    }
}

#[test]
fn a_long_file_is_seen() {
    seen(rules::file_length, "src/wheel/mod.rs", &"\n".repeat(521), 1);
    seen(rules::file_length, "tests/it/main.rs", &"\n".repeat(521), 1);
    seen(rules::file_length, "src/wheel/mod.rs", &"\n".repeat(520), 0);
    seen(rules::file_length, "README.md", &"\n".repeat(521), 0);
}

#[test]
fn a_long_function_is_seen() {
    let function = |lines| format!("impl S {{\n    fn f() {{{}}}\n\n    fn g() {{}}\n}}", "\n".repeat(lines));
    seen(rules::function_length, "src/wheel/mod.rs", &function(70), 1);
    seen(rules::function_length, "src/wheel/mod.rs", &function(69), 0);
    seen(rules::function_length, "src/wheel/tests.rs", &function(99), 0);
    seen(
        rules::function_length,
        "src/wheel/mod.rs",
        &format!("trait T {{ fn f();\n{}}}", "\n".repeat(99)),
        0,
    );
}

#[test]
fn a_module_without_a_head_is_seen() {
    seen(rules::module_head, "src/wheel/tests.rs", "use super::*;", 1);
    seen(rules::module_head, "src/wheel/tests.rs", "//! The wheel's tests.\nuse super::*;", 0);
}

#[test]
fn a_private_word_is_seen() {
    seen(rules::private_words, "README.md", concat!("see\n", "/wo", "rk/notes and Issue", " #7"), 2);
    seen(rules::private_words, "ci/tests.sh", concat!("# asked for by a sub", "agent"), 1);
    seen(rules::private_words, "README.md", "what works, at home, and an issue of KAFKA-6474", 0);
}

#[test]
fn code_is_told_from_comments_and_text() {
    let text = r##"
        // a::b
        /* a::b /* a::b */ a::b */
        const S: &str = "a::b \" a::b"; const R: &str = r#"a::b " a::b"#; const C: char = '"'; const B: u8 = b'\'';
        fn f<'a>(_: &'a str) -> c::d<'a> { e::{f, g::{self, h}}, ::i::j }
    "##;
    let found: Vec<String> = paths(&Source::new("src/x.rs", text).words)
        .iter()
        .map(|path| format!("{} {}", path.line, path.segments.join("::")))
        .collect();
    assert_eq!(found, ["5 c::d", "5 e::f", "5 e::g::self", "5 e::g::h", "5 i::j"]);
}

#[track_caller]
fn seen(rule: fn(&Source) -> Vec<String>, path: &str, text: &str, breaches: usize) {
    let found = rule(&Source::new(path, text));
    assert_eq!(found.len(), breaches, "{found:?}");
}

/// The text files of the repository.
fn repository() -> Vec<Source> {
    let (root, mut sources, mut directories) =
        (Path::new(env!("CARGO_MANIFEST_DIR")), Vec::new(), Vec::new());
    directories.push(root.to_owned());
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory can be read") {
            let path = entry.expect("an entry can be read").path();
            if SKIPPED.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let relative = path.strip_prefix(root).expect("it lies below the root");
                sources.push(Source::new(&relative.to_string_lossy().replace('\\', "/"), &text));
            }
        }
    }
    sources
}
