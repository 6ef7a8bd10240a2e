#!/usr/bin/env bash
# Each feature alone, none and all: the library must build with any of them.
. "$(dirname "$0")/lib.sh"
need_tools

cargo-hack hack check --locked --each-feature -p ixion
