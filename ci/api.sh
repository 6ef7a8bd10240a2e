#!/usr/bin/env bash
# What is public in the library, all features on, against api.txt, so that no change of it goes unseen. `ci/api.sh --write`
# writes it down anew: that a line has gone or changed breaks users, and is for a new version.
. "$(dirname "$0")/lib.sh"

list=api.txt
now=target/api/api.txt
# rustdoc writes JSON only where unstable options are allowed. Its form belongs to a compiler: with a newer one than here,
# ixion-api may need a newer `public-api`, and says so.
RUSTC_BOOTSTRAP=1 cargo rustdoc --locked --quiet -p ixion --lib --all-features --target-dir target/api -- \
    -Z unstable-options --output-format json
cargo run --locked --quiet -p ixion-api -- target/api/doc/ixion.json >"$now"
[ "$(wc -l <"$now")" -gt 100 ] || fail "$now lists next to nothing"

if [ "${1:-}" = --write ]; then
    cp "$now" "$list"
    exit
fi
diff -U0 --label "$list" --label "the library" "$list" "$now" ||
    fail "the public API is not what $list says (above: - was, + is). If it should be: ci/api.sh --write, and CHANGELOG.md"
echo "$(wc -l <"$list") lines, all as in $list"
