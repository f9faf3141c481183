#!/bin/sh
# check.sh [RUNNER...] - runs every program on small inputs, one line each; fails if one failed.
#   ./check.sh                              natively: P processes side by side
#   ./check.sh multigrain run --sysv -n 2   under that command, which starts one process a node
#   OUT=dir  where the programs are (build)      P=n  processes of a native run (2)
#   ONLY=name  one program only                  SECONDS_EACH=n  after which a run has hung (120)
# Natively it takes an IPC namespace of its own where it may (root), and looks that nothing is left.
set -u
cd "$(dirname "$0")" || exit 2
OUT=$(cd "${OUT:-build}" && pwd) || exit 2
limit=${SECONDS_EACH:-120}

if [ $# -eq 0 ] && [ -z "${IN_NAMESPACE:-}" ] && unshare --ipc true 2>/dev/null; then
    IN_NAMESPACE=1 exec unshare --ipc "./$(basename "$0")"
fi

processes=${P:-2}
previous=
for word in "$@"; do # -n 2, -n2, --nodes 2, --nodes=2
    case $previous in -n | --nodes) processes=$word ;; esac
    case $word in
    --nodes=*) processes=${word#--nodes=} ;;
    -n[0-9]*) processes=${word#-n} ;;
    esac
    previous=$word
done

logs=$(mktemp -d) || exit 2
trap 'rm -rf "$logs"' EXIT
key=$((0x41000000 + $$ % 4096 * 65536)) # two checks at a time do not meet, nor two programs of one
objects() {
    ipcs | awk '$2 ~ /^[0-9]+$/ { print $1, $2 }'
}
before=$(objects)
failed=0

start_all() { # program, its flags; natively as many as are to come
    if [ -n "$runner" ]; then
        timeout "$limit" "$@"
        return
    fi
    pids=
    i=1
    while [ "$i" -le "$processes" ]; do
        timeout "$limit" "$@" &
        pids="$pids $!"
        i=$((i + 1))
    done
    status=0
    for pid in $pids; do
        wait "$pid" || status=$?
    done
    return $status
}

runner=${1:-}
run() { # program, its flags; the runner's words are in "$@" of the script
    program=$1
    shift
    [ -z "${ONLY:-}" ] || [ "$ONLY" = "$program" ] || return 0
    key=$((key + 256))
    eval "start_all $runner_words \"\$OUT/\$program\" -p \"\$processes\" -k \"\$key\" -w \"\$((limit - limit / 8))\" \"\$@\"" \
        >"$logs/out" 2>&1
    status=$?
    line="^(\[[0-9]+\] )?$program: .*ok\$" # with the node before it, or without
    if [ $status -eq 0 ] && [ "$(grep -cE "$line" "$logs/out")" -eq 1 ]; then
        grep -E "$line" "$logs/out"
    else
        cat "$logs/out"
        echo "FAILED ($status): $program -p $processes $*"
        failed=$((failed + 1))
    fi
}

runner_words=
for word in "$@"; do
    runner_words="$runner_words '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done

run each_n -N 4 -r 6
run each_n -N 4 -r 4 -n 11
run each_n -N 2 -r 4 -c 2
run up_to_n -N 4 -r 6
run up_to_n -N 4 -r 4 -n 3072
run rand_n -N 4 -r 6
run rand_n -N 4 -r 4 -n 50 -c 2
run battleship --size 14
run battleship --size 14 --yield
run battleship --size 70 --seed 3
run matmul --size 60
run matmul --size 60 --band 4 --pad 64 -c 2
run matmul --size 40 --band 3 --semaphore
run bounded_buffer -i 200
run bounded_buffer -i 100 -c 3
run ring -r 50
run ring -r 20 -l 20 -c 2
run forker
run forker -c 2
run stress -r 1000 -t 1
run stress -r 1000 -t 3 -N 5
run stress -r 500 -t 2 -N 40 -c 2
run posix_sem -r 100
run posix_sem -r 50 -c 3
run posix_shm -r 50
run posix_shm -r 20 -c 2
# A futex wakes who waits on the same machine: between nodes there is none.
if [ -n "$runner" ] && [ "$processes" -gt 1 ]; then
    run conformance -x futex -x 'pthread objects' -x 'two sites'
else
    run conformance
fi

if [ -z "$runner" ]; then
    after=$(objects)
    if [ "$before" != "$after" ]; then
        echo "FAILED: System V objects were left, or lost:"
        echo "before: $before"
        echo "after: $after"
        failed=$((failed + 1))
    fi
fi
[ $failed -eq 0 ] && echo "check: ok" || echo "check: $failed FAILED"
[ $failed -eq 0 ]
