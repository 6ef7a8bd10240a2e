#!/usr/bin/env bash
# This machine in a line, for tables of what was measured.
. "$(dirname "$0")/lib.sh"

model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
echo "${model:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) cores, $(uname -sr), rustc $(rustc -V | cut -d ' ' -f 2)"
