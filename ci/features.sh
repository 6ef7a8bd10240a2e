#!/usr/bin/env bash
# The library, and ixion-retry, with every set of their features, `std` off too; and that the library leaves std alone where it
# says so. Its tests and examples have all features, by a dev-dependency: see ci/lint.sh.
. "$(dirname "$0")/lib.sh"

# Every set of features, but those that another one of them switches on. Not by cargo-hack, which names no package where it
# is the root's: cargo then takes the benches along, and these need `std`.
sets=$(cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import itertools, json, sys
packages = json.load(sys.stdin)["packages"]
for package in "ixion", "ixion-retry":
    features = next(it for it in packages if it["name"] == package)["features"]
    def implied(name):
        return {name}.union(*(implied(it) for it in features[name] if it in features))
    names = sorted(features.keys() - {"default"})
    sets = itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(len(names) + 1))
    closed = {frozenset().union(*map(implied, it)) for it in sets}
    for names in sorted(map(sorted, closed), key=lambda it: (len(it), it)):
        print(package, ",".join(names))
')
while read -r package set; do
    echo "--- features of $package: ${set:-none}"
    cargo clippy --locked --quiet -p "$package" --lib --no-default-features --features "$set" -- -D warnings
done <<<"$sets"

echo "--- without std"
# In a directory of its own: the cfg is for all that is built, and nothing else needs to be built twice for it.
no_std() {
    RUSTFLAGS="--cfg ixion_no_std" cargo check --locked --quiet -p ixion-no-std --target-dir target/no-std "$@"
}
no_std
output=$(no_std --features std 2>&1) && fail "tests/no-std does not see that std is linked"
grep -q 'duplicate lang item .panic_impl' <<<"$output" ||
    fail "tests/no-std fails with std, but not since that is linked: $output"
