#!/usr/bin/env bash
# What would be published, as a stranger gets it: what is in the archive, that it and its tests build there, that the
# examples of its documentation pass, that docs.rs can build that, and that the oldest versions it asks for are enough. Nothing is
# uploaded. Works on what is committed, as cargo does.
. "$(dirname "$0")/lib.sh"

# Bytes of the archive. It is all text; what is for the repository alone is kept out by `include` in Cargo.toml.
limit=300000

cargo metadata --locked --format-version 1 | python3 ci/package.py || fail "not to be published like that"
cargo package --locked --quiet -p ixion
cargo publish --dry-run --no-verify --locked --quiet -p ixion

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
archive=$PWD/target/package/ixion-$version.crate
tar -tzf "$archive" | sed 's|^[^/]*/||' | grep -v '^src/.*\.rs$' | sort
size=$(wc -c <"$archive")
echo "$size bytes"
[ "$size" -le "$limit" ] || fail "the archive takes more than $limit bytes"

# Where no workspace is round it.
stranger=$(mktemp -d)
trap 'rm -rf "$stranger"' EXIT
export CARGO_TARGET_DIR=$PWD/target/stranger
tar -xzf "$archive" -C "$stranger"
cd "$stranger/ixion-$version"
for file in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT examples/quickstart.rs; do
    [ -f "$file" ] || fail "$file is not in the archive"
done

echo "--- tests of the archive: they build, and those of its documentation pass"
cargo test --locked --quiet --all-features --no-run
cargo test --locked --quiet --all-features --doc
cargo run --locked --quiet --example quickstart

echo "--- documentation, as docs.rs builds it"
RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo doc --locked --quiet --no-deps --all-features

echo "--- the oldest dependencies that it asks for"
RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
cargo check --locked --quiet --all-features
