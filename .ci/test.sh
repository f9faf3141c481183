#!/usr/bin/env bash
# What cargo tests, after all of it is built: most test programs wait more than they compute, so three run at a time; those
# that measure what others would disturb run one after the other. What a program prints comes whole when it has ended.
#
#   .ci/test.sh beside        three at a time, the tools' short forms among them
#   .ci/test.sh alone         the others
set -euo pipefail
cd "$(dirname "$0")/.."

# Counts that depend on who is first, shares of processors, seconds that are promised (hosts_networks), and what a job leaves on
# the host (inject).
ALONE="apps bench fairness hosts_networks inject scale service sysv_windows wakeup_suppression"
# What takes longest begins first.
LONGEST="c_api sysv paths slurm deadlock nodes sysv_reports"

export PRINTED
PRINTED=$(mktemp -d)
trap 'rm -rf "$PRINTED"' EXIT

# The names of all test programs; two crates may have one of the same name.
names() {
    ls crates/*/tests/*.rs crates/*/tests/*/main.rs |
        sed -e 's|/main\.rs$||' -e 's|\.rs$||' -e 's|.*/||' | sort -u
}

beside() {
    echo "make try-mutants"
    printf 'cargo test --workspace --test %s\n' $LONGEST
    printf 'make %s\n' shuttle loom fuzz-short
    names | grep -vxF "$(tr ' ' '\n' <<<"$ALONE $LONGEST")" |
        sed 's|^|cargo test --workspace --test |'
    echo "cargo test --workspace --lib --bins"
    echo "cargo test --workspace --doc"
}

alone() { printf 'cargo test --workspace --test %s\n' $ALONE; }

# Runs a line of the above.
one() {
    local printed code=0
    printed=$(mktemp -p "$PRINTED")
    TIMEFORMAT="== $1: %0R s, of a processor %0U and %0S"
    { time bash -c "$1" >"$printed" 2>&1; } 2>>"$printed" || code=$?
    flock "$PRINTED" cat "$printed"
    [ "$code" -eq 0 ] || echo "$1" >>"$PRINTED/failed"
}
export -f one

case "${1:-}" in
beside) beside | xargs -d '\n' -P 3 -I{} bash -c 'one "{}"' ;;
alone) alone | xargs -d '\n' -I{} bash -c 'one "{}"' ;;
*) sed -n '2,6s/^# \?//p' "$0" && exit 2 ;;
esac

if [ -e "$PRINTED/failed" ]; then
    echo "failed: $(paste -sd, "$PRINTED/failed")"
    exit 1
fi
# What the programs said of themselves, added up.
cat "$PRINTED"/* | awk '/^test result:/ { passed += $4; failed += $6 } END { print passed " passed, " failed " failed" }'
