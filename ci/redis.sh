#!/usr/bin/env bash
# Prints the path of redis-server, which it installs if there is none.
. "$(dirname "$0")/lib.sh"

mkdir -p target
# Tests ask side by side.
exec 9>target/redis.lock
flock 9
command -v redis-server >/dev/null || apt_install redis-server || fail "redis-server is missing: apt-get install redis-server"
command -v redis-server
