//! The rules. Each takes a file and returns its breaches as `path:line: what is wrong`.

use crate::source::{Path, Source, Word, closing, is_name, paths};

/// Each module of the library and what it may use, from the ground up: pure, seams, shared, thread, front ends. A module
/// may use itself, and of another only what stands above it in this table.
pub(crate) const LAYERS: &[(&str, &[&str])] = &[
    ("fault", &[]),
    ("steps", &[]),
    ("tick", &[]),
    ("wheel", &["fault", "steps", "tick"]),
    ("sync", &["fault"]),
    ("clock", &["sync", "tick"]),
    ("trampoline", &["sync"]),
    ("trace", &["trampoline"]),
    ("operation", &["sync", "trampoline"]),
    ("metrics", &["operation"]),
    ("alarm", &["sync", "tick"]),
    (
        "purgatory",
        &["alarm", "clock", "metrics", "operation", "steps", "sync", "tick", "trace", "trampoline", "wheel"],
    ),
    ("expirer", &["alarm", "operation", "purgatory", "sync", "trace", "trampoline"]),
    ("future", &[ROOT, "operation", "purgatory", "sync"]),
    ("kafka", PUBLIC),
    ("telemetry", PUBLIC),
    ("testing", PUBLIC),
    ("design", &[]),
    ("guide", &[]),
];

/// What a front end uses: what any user of the library can, and nothing further in; and a lock, if it needs one. See
/// [`ROOT`].
const PUBLIC: &[&str] = &[ROOT, "tick", "wheel", "clock", "operation", "metrics", "purgatory", "expirer"];
/// Stands in [`LAYERS`] for the names that the root re-exports.
pub(crate) const ROOT: &str = "a name of the root";
const PURE: &[&str] = &["steps", "tick", "wheel"];

/// Tests on real threads, with real time: the only ones that may sleep.
pub(crate) const MAY_SLEEP: &[&str] = &[
    "tests/it/field_reports/real_time.rs",
    "tests/it/field_reports/threads.rs",
    "tests/it/real_threads.rs",
    "retry/tests/it/redis/shared.rs",
    // While other programs start.
    "tests/redis-server/src/cluster.rs",
    "tests/redis-server/src/lib.rs",
];

const MAX_FILE_LINES: usize = 520;
const MAX_FUNCTION_LINES: usize = 70;

/// All that is wrong with a file.
pub(crate) fn check(source: &Source) -> Vec<String> {
    const RULES: &[fn(&Source) -> Vec<String>] = &[
        layers,
        pure,
        time,
        locks,
        threads,
        unsafe_and_weak,
        sleeps,
        file_length,
        function_length,
        module_head,
        private_words,
    ];
    RULES.iter().flat_map(|rule| rule(source)).collect()
}

/// A module uses only what [`LAYERS`] allows it.
pub(crate) fn layers(source: &Source) -> Vec<String> {
    let Some(module) = module(source) else { return Vec::new() };
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == module) else {
        return vec![format!(
            "{}:1: module `{module}` has no place in the layers (tests/tidy/rules.rs)",
            source.path
        )];
    };
    let depth = source.path.trim_end_matches("/mod.rs").matches('/').count();
    let refused = |path: &Path| {
        let (used, next) = root_names(path, depth)?;
        let is_type = |name: &str| name.starts_with(char::is_uppercase) || matches!(name, "*" | "self");
        let what = if is_type(used) || used == "defer" { ROOT } else { used };
        if used == module {
            None
        } else if !allowed.contains(&what) {
            Some(format!("`{module}` must not use `{what}`"))
        } else if allowed.contains(&ROOT) && what != "sync" && next.is_some_and(|next| !is_type(next)) {
            Some(format!("`{module}` is a front end and must not reach into `{what}`"))
        } else {
            None
        }
    };
    let paths = paths(&source.shipped());
    paths.iter().filter_map(|path| Some(breach(source, path.line, &refused(path)?))).collect()
}

/// The pure modules know no clock, lock or thread: nothing that needs an operating system, so that they are there without std.
pub(crate) fn pure(source: &Source) -> Vec<String> {
    if !module(source).is_some_and(|module| PURE.contains(&module)) {
        return Vec::new();
    }
    find(source, "a pure module knows no clock, lock or thread, nor std", |segments| {
        matches!(segments, ["std", ..] | ["core" | "alloc", "sync", ..])
            || segments.iter().any(|name| matches!(*name, "Instant" | "SystemTime"))
    })
}

/// Only the clock reads time.
pub(crate) fn time(source: &Source) -> Vec<String> {
    if source.path == "src/clock.rs" || !source.is_library() {
        return Vec::new();
    }
    named(&source.shipped(), &["Instant", "SystemTime"])
        .map(|word| breach(source, word.line, &format!("`{}` is for clock.rs", word.text)))
        .collect()
}

/// Only `sync` names a lock, a condition variable or an atomic: from `std::sync` the rest may have `Arc`. So may `fault`,
/// in a build for the models.
pub(crate) fn locks(source: &Source) -> Vec<String> {
    let is_seam = matches!(module(source), Some("sync" | "fault"));
    if is_seam || !source.is_library() {
        return Vec::new();
    }
    let mut found = find(source, "locks and atomics are for sync.rs", |segments| match segments {
        ["std" | "core" | "alloc", "sync", "Arc", ..] => false,
        ["std" | "core" | "alloc", "sync", ..] | ["std", "thread_local"] => true,
        ["crossbeam_utils", "sync" | "atomic", ..] => true,
        _ => false,
    });
    found.extend(
        named(&source.shipped(), &["parking_lot", "loom", "shuttle"])
            .map(|word| breach(source, word.line, &format!("`{}` is for sync.rs", word.text))),
    );
    found
}

/// Only the expirer starts a thread.
pub(crate) fn threads(source: &Source) -> Vec<String> {
    if source.path == "src/expirer.rs" || !source.is_library() {
        return Vec::new();
    }
    find(source, "threads are for expirer.rs", |segments| {
        segments.windows(2).any(|pair| matches!(pair, ["thread", "spawn" | "Builder" | "scope" | "*"]))
    })
}

/// The library has neither `unsafe` nor back pointers, its tests included.
pub(crate) fn unsafe_and_weak(source: &Source) -> Vec<String> {
    if !source.is_library() {
        return Vec::new();
    }
    named(&source.words, &["unsafe", "Weak"])
        .map(|word| breach(source, word.line, &format!("no `{}` in the library", word.text)))
        .collect()
}

/// Neither the library nor its tests sleep: time is moved by hand.
pub(crate) fn sleeps(source: &Source) -> Vec<String> {
    let is_subject = source.is_library() || source.path.starts_with("tests/");
    if !is_subject || MAY_SLEEP.contains(&source.path.as_str()) {
        return Vec::new();
    }
    paths(&source.words)
        .iter()
        .filter_map(|path| {
            let sleeps = segments(path).windows(2).any(|pair| {
                matches!(pair, ["thread", "sleep" | "sleep_until" | "park_timeout"])
                    || matches!(pair, ["time", "sleep" | "sleep_until"])
            });
            sleeps.then(|| breach(source, path.line, "move a ManualClock; don't sleep"))
        })
        .collect()
}

/// A file is one noun.
pub(crate) fn file_length(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if !source.path.ends_with(".rs") || lines <= MAX_FILE_LINES {
        return Vec::new();
    }
    vec![breach(source, lines, &format!("{lines} lines in a file; {MAX_FILE_LINES} is too long already"))]
}

/// A function fits a screen. Tests and benchmarks, which list cases, are let off.
pub(crate) fn function_length(source: &Source) -> Vec<String> {
    let (shipped, mut found) = (source.shipped(), Vec::new());
    for (at, word) in shipped.iter().enumerate() {
        let Some(name) = shipped.get(at + 1).filter(|name| word.text == "fn" && is_name(&name.text)) else {
            continue;
        };
        let mut rest = shipped.iter().enumerate().skip(at);
        let Some((open, brace)) = rest.find(|(_, word)| matches!(word.text.as_str(), "{" | ";")) else {
            continue;
        };
        if brace.text == ";" {
            continue;
        }
        let lines = shipped[closing(&shipped, open)].line - word.line + 1;
        if lines > MAX_FUNCTION_LINES {
            let what = format!("`{}` has {lines} lines; {MAX_FUNCTION_LINES} fit a screen", name.text);
            found.push(breach(source, word.line, &what));
        }
    }
    found
}

/// Every module says what it is for.
pub(crate) fn module_head(source: &Source) -> Vec<String> {
    if !source.is_library() || source.text.starts_with("//!") {
        return Vec::new();
    }
    vec![breach(source, 1, "a module starts with `//!` and says what it is for")]
}

/// What is nobody else's business: paths of one machine, numbers of a tracker that others cannot see.
pub(crate) fn private_words(source: &Source) -> Vec<String> {
    // In two halves each, so that this file passes its own rule.
    const WORDS: &[&str] = &[
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("issue", " #"),
        concat!("sub", "agent"),
        concat!("sub-", "agent"),
        concat!("py", "pi.org"),
    ];
    let mut found = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        let line = line.to_lowercase();
        for word in WORDS.iter().filter(|word| line.contains(**word)) {
            found.push(breach(source, number + 1, &format!("`{word}` says nothing to a stranger")));
        }
    }
    found
}

/// The module at the top of the library that a file belongs to; none for its root and for other files.
fn module(source: &Source) -> Option<&str> {
    let module = source.path.strip_prefix("src/")?.split('/').next()?.trim_end_matches(".rs");
    (module != "lib").then_some(module.strip_suffix("_tests").unwrap_or(module))
}

/// The name below the root that a path starts with, and the one after it: of `crate::a::b`, or of a `super::…` that
/// climbs that high.
fn root_names(path: &Path, depth: usize) -> Option<(&str, Option<&str>)> {
    let segments = segments(path);
    let supers = segments.iter().take_while(|name| **name == "super").count();
    let first = match segments[0] {
        "crate" => 1,
        // Taken as if from no inline module: from one, `super` climbs less high than this thinks.
        "super" if supers >= depth => supers,
        _ => return None,
    };
    Some((*segments.get(first)?, segments.get(first + 1).copied()))
}

fn segments(path: &Path) -> Vec<&str> {
    path.segments.iter().map(String::as_str).collect()
}

fn find(source: &Source, what: &str, is_breach: impl Fn(&[&str]) -> bool) -> Vec<String> {
    let paths = paths(&source.shipped());
    let found = paths.iter().filter(|path| is_breach(&segments(path)));
    found.map(|path| breach(source, path.line, &format!("`{}`: {what}", path.segments.join("::")))).collect()
}

fn named<'a>(words: &'a [Word], names: &'a [&str]) -> impl Iterator<Item = &'a Word> {
    words.iter().filter(|word| names.contains(&word.text.as_str()))
}

fn breach(source: &Source, line: usize, what: &str) -> String {
    format!("{}:{line}: {what}", source.path)
}
