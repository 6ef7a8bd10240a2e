#!/usr/bin/env bash
# What ixion costs beside its rivals, in about a minute. Criterion's benchmarks run once, to show that they work and that
# their answers are right: `cargo bench` measures with them. The other programs print tables, which go to the standard output;
# no figure in them is held to anything, for the machine may be busy.
#
# `ci/bench.sh --write` writes the tables to benches/RATIOS.md, and those that the READMEs quote into them;
# `--full` measures longer, with more rows: many minutes.
. "$(dirname "$0")/lib.sh"

write=no
short=(--short)
for argument in "$@"; do
    case $argument in
    --write) write=yes ;;
    --full) short=() ;;
    *) fail "what is $argument?" ;;
    esac
done

list='
import json, sys
for package in json.load(sys.stdin)["packages"]:
    for target in package["targets"]:
        if "bench" in target["kind"]:
            print(package["name"], target["name"], target["src_path"])
'
# Where figures count for nothing, the builds of the other stages do.
[ "$write" = yes ] || export CARGO_PROFILE_BENCH_LTO=false CARGO_PROFILE_BENCH_CODEGEN_UNITS=16

benches=$(cargo metadata --locked --no-deps --format-version 1 | python3 -c "$list")
[ -n "$benches" ] || fail "there is no benchmark"
cargo bench --locked -p ixion-bench --no-run

tables=target/bench-tables
rm -rf "$tables" && mkdir -p "$tables"
while read -r package bench source; do
    run=(cargo bench --locked --quiet -p "$package" --bench "$bench" --)
    if grep -q '^criterion_main!' "$source"; then
        echo "--- $bench, once"
        "${run[@]}" --test </dev/null >/dev/null 2>"$tables/errors" || { cat "$tables/errors" && fail "$bench failed"; }
    else
        echo "--- $bench"
        "${run[@]}" "${short[@]}" </dev/null 2>"$tables/errors" >"$tables/$bench.md" ||
            { cat "$tables/errors" && fail "$bench failed"; }
        cat "$tables/$bench.md"
    fi
done <<<"$benches"
[ "$write" = yes ] || exit 0

{
    echo "# What ixion costs beside its rivals"
    echo
    echo "## Where and when"
    echo
    echo "Taken on $(date -u +%F) by \`ci/bench.sh $*\`, which repeats it: $(ci/machine.sh)."
    # The timers first, then the others by their names.
    for table in "$tables"/{ratios,latency,memory}.md "$tables"/*.md; do
        [ -f "$table" ] || continue
        echo
        cat "$table"
        rm "$table"
    done
} | cat -s >benches/RATIOS.md
for readme in README.md retry/README.md; do
    python3 ci/quote.py benches/RATIOS.md "$readme"
done
