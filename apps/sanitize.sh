#!/bin/sh
# sanitize.sh KIND DIR MULTIGRAIN - the applications and planted.c under a sanitizer, on 2
# nodes x 2 threads, both guards: right answers without a report, and a report for what is planted.
#   KIND: asan (with UndefinedBehaviorSanitizer) or tsan, built by make mg-asan or mg-tsan
#   DIR: where the programs are; MULTIGRAIN: the command
set -u
kind=$1
dir=$2
multigrain=$3
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# The library is not instrumented; what it orders, it says.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 history_size=7 ${TSAN_OPTIONS:-}"
# A fault of ours goes to Multigrain's handler, any other on to the sanitizer's.
export ASAN_OPTIONS="allow_user_segv_handler=1 ${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="halt_on_error=1 print_stacktrace=1 ${UBSAN_OPTIONS:-}"

run() { # guard, program, its words
    guard=$1
    shift
    timeout 120 "$multigrain" run -n 2 -t 2 --guard "$guard" "$@" >"$log" 2>&1
}

fail() {
    cat "$log"
    echo "FAILED: $*"
    failed=1
}

silent() { # the word of a right end, then as run
    good=$1
    shift
    if ! run "$@" || ! grep -q "$good" "$log" || grep -q 'Sanitizer\|runtime error' "$log"; then
        fail "$@"
    fi
}

reported() { # what the report says, then as run
    report=$1
    shift
    if run "$@" || ! grep -q "Sanitizer: $report" "$log"; then
        fail "no report '$report': $*"
    fi
}

for guard in uffd mprotect; do
    silent 'check=ok' "$guard" "$dir/sor-mg-$kind" --rows 203 --cols 34 --iterations 7
    silent 'check=ok' "$guard" "$dir/lu-mg-$kind" --size 128 --block 16
    silent 'check=ok' "$guard" "$dir/is-mg-$kind" --keys 12 --iterations 3
    silent 'check=ok' "$guard" "$dir/water-mg-$kind" --molecules 27 --steps 2
    silent 'check=ok' "$guard" "$dir/tsp-mg-$kind" --cities 10 --level 6
    silent 'check=ok' "$guard" "$dir/jacobi-mg-$kind" --size 66 --iterations 5
    silent 'check=ok' "$guard" "$dir/falseshare-mg-$kind" --pages 5 --iterations 6
    silent 'planted: done' "$guard" "$dir/planted-mg-$kind" right
    case $kind in
    tsan) reported 'data race' "$guard" "$dir/planted-mg-$kind" race ;;
    asan)
        reported 'heap-buffer-overflow' "$guard" "$dir/planted-mg-$kind" overflow
        reported 'SEGV' "$guard" "$dir/planted-mg-$kind" wild
        ;;
    esac
    [ "$failed" -ne 0 ] || echo "ok: $kind, $guard"
done
exit "$failed"
