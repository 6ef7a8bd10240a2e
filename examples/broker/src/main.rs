//! A memory-only broker.
fn main() {}
