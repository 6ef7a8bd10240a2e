#!/usr/bin/env bash
# All tests: `cargo test --workspace --all-features`, as in the README; and how many of the library's lines they run.
. "$(dirname "$0")/lib.sh"
need_tools

# Per cent of the lines. A few points below what was measured: it is there to show that code without a test came in.
floor=${1:-95}

llvm=$(llvm_bin)
[ -x "$llvm/llvm-cov" ] || fail "LLVM's tools are missing: apt-get install llvm-$(llvm_version)"
export LLVM_COV=$llvm/llvm-cov LLVM_PROFDATA=$llvm/llvm-profdata
# Apart from the other builds, which are not instrumented.
export CARGO_TARGET_DIR=$PWD/target/coverage
# shellcheck disable=SC1090 # its output is what is sourced
source <(cargo-llvm-cov llvm-cov show-env --sh --no-cfg-coverage)
cargo-llvm-cov llvm-cov clean --workspace --profraw-only

cargo test --locked --workspace --all-features

echo "--- lines of the library that the tests have run"
cargo-llvm-cov llvm-cov report --json --summary-only | python3 -c '
import json, os, re, sys
floor, root = float(sys.argv[1]), os.getcwd() + "/src/"
# What is there for tests only is not the library.
tests = re.compile(r"(^|/)(tests|[a-z]+_tests)\.rs$|^testing/")
count = covered = 0
for file in json.load(sys.stdin)["data"][0]["files"]:
    name, lines = file["filename"], file["summary"]["lines"]
    if not name.startswith(root) or tests.search(name.removeprefix(root)):
        continue
    count, covered = count + lines["count"], covered + lines["covered"]
    missed = lines["count"] - lines["covered"]
    print("%-28s %5d lines %5d missed  %6.2f %%" % (name.removeprefix(root), lines["count"], missed, lines["percent"]))
share = 100 * covered / count if count else 0
print("%-28s %5d lines %5d missed  %6.2f %%, at least %g %%" % ("all", count, count - covered, share, floor))
sys.exit(share < floor)
' "$floor" || fail "too few of the lines of the library are run by a test"
