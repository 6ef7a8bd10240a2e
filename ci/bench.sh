#!/usr/bin/env bash
# Each benchmark once, to show that it runs and that its answers are right. It measures nothing: `cargo bench` does.
. "$(dirname "$0")/lib.sh"

list='
import json, sys
for package in json.load(sys.stdin)["packages"]:
    for target in package["targets"]:
        if "bench" in target["kind"]:
            print(package["name"], target["name"])
'
benches=$(cargo metadata --locked --no-deps --format-version 1 | python3 -c "$list")
[ -n "$benches" ] || fail "there is no benchmark"
while read -r package bench; do
    echo "--- $package: $bench"
    cargo bench --locked -p "$package" --bench "$bench" -- --test </dev/null
done <<<"$benches"
