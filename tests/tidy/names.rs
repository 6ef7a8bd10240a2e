//! What the texts name exists: tests, functions, files.

use crate::source::{Source, is_name};
use std::path::Path;

/// The texts whose names are checked.
const TEXTS: &[&str] = &[
    "src/design.rs",
    "src/guide/",
    "retry/README.md",
    "retry/src/lib.rs",
    "retry/src/sorted_set.rs",
    "tests/README.md",
];

/// Where the repository's files are shown.
const FILES: &str = "https://github.com/ixion-rs/ixion/blob/main/";

/// A function of the repository.
struct Function<'a> {
    path: &'a str,
    name: &'a str,
    is_test: bool,
}

/// A code span with a sentence for a name, `module::like_this_one_here` or `module::like_this_…`, is a test; one without a
/// path a function at least.
pub(crate) fn missing_tests(sources: &[Source]) -> Vec<String> {
    let functions: Vec<Function<'_>> = sources.iter().flat_map(functions).collect();
    let texts = sources.iter().filter(|source| TEXTS.iter().any(|text| source.path.starts_with(text)));
    let mut found = Vec::new();
    for (source, (number, line)) in
        texts.flat_map(|source| source.text.lines().enumerate().map(move |line| (source, line)))
    {
        for span in line.split('`').skip(1).step_by(2).filter(|span| is_sentence(span)) {
            if !functions.iter().any(|function| is_meant(span, function)) {
                found.push(format!("{}:{}: there is no test `{span}`", source.path, number + 1));
            }
        }
    }
    found
}

/// What a text links to in this repository is there.
pub(crate) fn dead_links(sources: &[Source], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let (is_markdown, directory) = (source.path.ends_with(".md"), Path::new(&source.path).parent());
        for (number, line) in source.text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
                let file = match target.strip_prefix(FILES) {
                    Some(file) => Path::new(file).to_owned(),
                    None if is_markdown && !target.is_empty() && !target.contains(':') => {
                        directory.unwrap_or(Path::new("")).join(target)
                    }
                    None => continue,
                };
                if !exists(&file) {
                    found.push(format!("{}:{}: the link leads nowhere: {target}", source.path, number + 1));
                }
            }
        }
    }
    found
}

/// Whether a span names a test: all of it is a path, and its last part is a sentence.
fn is_sentence(span: &str) -> bool {
    let (path, name) = split(span);
    let is_lower =
        |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-…".contains(c));
    let underscores = name.matches('_').count();
    path.iter().copied().chain([name]).all(is_lower)
        && (underscores >= 3 || (name.ends_with("_…") && underscores >= 2))
}

/// The modules before a name, and the name. `models: name` is written where the module is a package.
fn split(span: &str) -> (Vec<&str>, &str) {
    let mut parts: Vec<&str> = span.split("::").flat_map(|part| part.split(": ")).collect();
    let name = parts.pop().unwrap_or_default();
    parts.retain(|part| *part != "…");
    (parts, name)
}

fn is_meant(span: &str, function: &Function<'_>) -> bool {
    let (modules, name) = split(span);
    let parts: Vec<&str> = function.path.trim_end_matches(".rs").split('/').collect();
    let lies_in = |module: &str| {
        // Unit tests at the foot of a file are in no file of that name.
        (module == "tests" && parts.contains(&"src"))
            || parts.iter().any(|part| part.trim_end_matches("_tests") == module.trim_start_matches("ixion-"))
    };
    let is_name = match (name.strip_prefix('…'), name.strip_suffix('…')) {
        (Some(rest), _) => function.name.contains(rest.trim_end_matches('…')),
        (None, Some(beginning)) => function.name.starts_with(beginning),
        (None, None) => function.name == name,
    };
    is_name && (modules.is_empty() || function.is_test) && modules.iter().all(|module| lies_in(module))
}

fn functions(source: &Source) -> Vec<Function<'_>> {
    let (words, mut functions, mut is_test) = (&source.words, Vec::new(), false);
    for (at, word) in words.iter().enumerate() {
        // `#[test]` or `#[tokio::test]`.
        let before = at.checked_sub(1).map(|before| words[before].text.as_str());
        is_test |= word.text == "test" && matches!(before, Some("[" | "::"));
        if let Some(name) = words.get(at + 1).filter(|name| word.text == "fn" && is_name(&name.text)) {
            functions.push(Function { path: &source.path, name: &name.text, is_test });
            is_test = false;
        }
    }
    functions
}
