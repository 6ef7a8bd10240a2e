#!/usr/bin/env bash
# The documentation, private items included: a link that leads nowhere is an error, one of the README to docs.rs too.
. "$(dirname "$0")/lib.sh"

export RUSTDOCFLAGS="-D warnings"
cargo doc --locked --no-deps --all-features --document-private-items -p ixion -p ixion-broker -p ixion-retry

while read -r page; do
    [ -f "target/doc/$page" ] || fail "README.md links to $page, which there is not"
done < <(grep -o 'https://docs.rs/ixion/latest/[^)# ]*' README.md | sed 's|.*/latest/||; s|/$|/index.html|')
