//! Lists what is public in a crate, one item a line, from its documentation in JSON: `ixion-api ixion.json`.

use public_api::Builder;
use std::collections::HashSet;
use std::error::Error;

/// Traits that no user of a stable compiler can name, which come and go with the compiler; and the oracles, which may change
/// with any release.
const UNSTABLE: [&str; 4] = [
    "core::marker::Freeze",
    "core::marker::StructuralPartialEq",
    "core::marker::UnsafeUnpin",
    "ixion::testing",
];

fn main() -> Result<(), Box<dyn Error>> {
    let json = std::env::args_os().nth(1).ok_or("usage: ixion-api FILE.json")?;
    let mut seen = HashSet::new();
    for item in Builder::from_rustdoc_json(json).omit_blanket_impls(true).build()?.items() {
        let line = item.to_string();
        // What the root re-exports is listed there once more, methods and all.
        if !UNSTABLE.iter().any(|name| line.contains(name)) && seen.insert(line.clone()) {
            println!("{line}");
        }
    }
    Ok(())
}
