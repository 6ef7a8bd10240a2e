//! A source file as words: enough of a lexer to tell code from comments and text, shipped code from unit tests, and to
//! spell out `use` trees. It does not know Rust's grammar, and needs not to.

/// A file of the repository.
pub(crate) struct Source {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The code: comments are left out, a string or a character is one empty word.
    pub(crate) words: Vec<Word>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A path as it is written, `use` trees spelled out: `std::{fmt, sync::Arc}` is two.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let words = if path.ends_with(".rs") { words(text) } else { Vec::new() };
        Source { path: path.to_owned(), text: text.to_owned(), words }
    }

    /// Whether the file is part of the library.
    pub(crate) fn is_library(&self) -> bool {
        self.path.starts_with("src/")
    }

    /// Whether the whole file is tests: `tests.rs`, `…_tests.rs`, or anything below `tests` or `benches`.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let below = |dir| self.path.split('/').any(|part| part == dir);
        name == "tests.rs" || name.ends_with("_tests.rs") || below("tests") || below("benches")
    }

    /// The words of a build that is not a test's: without what stands under `#[cfg(test)]`.
    pub(crate) fn shipped(&self) -> Vec<Word> {
        if self.is_test() {
            return Vec::new();
        }
        let (words, mut shipped, mut at) = (&self.words, Vec::new(), 0);
        while at < words.len() {
            if is_cfg_test(&words[at..]) {
                at = end_of_item(words, at);
            } else {
                shipped.push(words[at].clone());
                at += 1;
            }
        }
        shipped
    }
}

/// The paths of more than one segment. A path that starts with `::` counts as one that does not.
pub(crate) fn paths(words: &[Word]) -> Vec<Path> {
    let (mut paths, mut at) = (Vec::new(), 0);
    while at < words.len() {
        if is_name(&words[at].text) && next_is(words, at + 1, "::") {
            at = tree(words, at, &[], &mut paths);
        } else {
            at += 1;
        }
    }
    paths
}

/// The index of the brace that closes the one at `open`; the last word if none does.
pub(crate) fn closing(words: &[Word], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, word) in words.iter().enumerate().skip(open) {
        match word.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    words.len() - 1
}

pub(crate) fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads one path, or one branch of a `use` tree, and returns where it ends.
fn tree(words: &[Word], mut at: usize, before: &[String], paths: &mut Vec<Path>) -> usize {
    let line = words[at].line;
    let mut segments = before.to_vec();
    loop {
        match words.get(at).map(|word| word.text.as_str()) {
            Some("{") => {
                at += 1;
                while at < words.len() && words[at].text != "}" {
                    let from = at;
                    at = tree(words, at, &segments, paths);
                    at += usize::from(at == from || next_is(words, at, ","));
                }
                return at + 1;
            }
            Some(word) if is_name(word) || word == "*" => segments.push(word.to_owned()),
            _ => break,
        }
        at += 1;
        if !next_is(words, at, "::") {
            break;
        }
        at += 1;
    }
    if next_is(words, at, "as") {
        at += 2;
    }
    if segments.len() > 1 {
        paths.push(Path { line, segments });
    }
    at
}

fn next_is(words: &[Word], at: usize, text: &str) -> bool {
    words.get(at).is_some_and(|word| word.text == text)
}

/// Whether a `cfg` that only a test's build has comes first.
fn is_cfg_test(words: &[Word]) -> bool {
    let spelled = |text: &str| words.iter().map(|word| word.text.as_str()).take(7).eq(text.split(' '));
    spelled("# [ cfg ( test ) ]") || spelled("# [ cfg ( all ( test")
}

/// The first word behind the item whose attribute is at `at`.
fn end_of_item(words: &[Word], at: usize) -> usize {
    for (end, word) in words.iter().enumerate().skip(at) {
        match word.text.as_str() {
            ";" => return end + 1,
            "{" => return closing(words, end) + 1,
            _ => {}
        }
    }
    words.len()
}

fn words(text: &str) -> Vec<Word> {
    let (mut words, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let (length, word) = word(rest, first);
        if let Some(word) = word {
            words.push(Word { line, text: word.to_owned() });
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    words
}

/// The length of what comes first, and the word that it is.
fn word(rest: &str, first: char) -> (usize, Option<&str>) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), None);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), None);
    }
    if let Some(length) = literal(rest) {
        return (length, Some(""));
    }
    if first.is_alphanumeric() || first == '_' {
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        return (length, Some(&rest[..length]));
    }
    if rest.starts_with("::") {
        return (2, Some("::"));
    }
    (first.len_utf8(), (!first.is_whitespace()).then(|| &rest[..first.len_utf8()]))
}

/// The length of a comment; they nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a string or a character, if one comes first. A lifetime is none.
fn literal(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r"].into_iter().find(|prefix| {
        let after = rest.strip_prefix(prefix).unwrap_or_default().trim_start_matches('#');
        after.starts_with('"') || (*prefix == "b" && after.starts_with('\''))
    });
    let start = prefix.map_or(0, str::len);
    let body = &rest[start..];
    let hashes = body.len() - body.trim_start_matches('#').len();
    if prefix.is_some_and(|prefix| prefix.ends_with('r')) {
        let end = format!("\"{}", "#".repeat(hashes));
        let content = start + hashes + 1;
        return Some(rest[content..].find(&end).map_or(rest.len(), |at| content + at + end.len()));
    }
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut chars = body.char_indices().skip(1);
    if quote == '\'' {
        let (_, first) = chars.next()?;
        let (after, second) = chars.next()?;
        if first != '\\' {
            return (second == '\'').then_some(start + after + 1);
        }
    }
    let mut escaped = false;
    for (at, c) in chars {
        if c == quote && !escaped {
            return Some(start + at + 1);
        }
        escaped = c == '\\' && !escaped;
    }
    Some(rest.len())
}
