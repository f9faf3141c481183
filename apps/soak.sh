#!/bin/sh
# soak.sh DIR MULTIGRAIN [TIMES] - every application on small inputs on real nodes, its answer checked:
# 1, 2, 4 and 8 nodes, 1 and 3 threads each, both guards, both transports, TIMES times (default 1).
# Says what failed with its output; ends with a line "N passed, M failed".
set -u
dir=$1
multigrain=$2
times=${3:-1}
nodes_list=${NODES:-1 2 4 8}
threads_list=${THREADS:-1 3}
guards=${GUARDS:-uffd mprotect}
transports=${TRANSPORTS:-unix tcp}

flags_of() {
    case $1 in
    sor) echo "--rows 203 --cols 34 --iterations 7" ;;
    is) echo "--keys 14 --iterations 3" ;;
    water) echo "--molecules 45 --steps 4" ;;
    lu) echo "--size 192 --block 16" ;;
    tsp) echo "--cities 13 --level 8" ;;
    jacobi) echo "--size 130 --iterations 9" ;;
    esac
}

passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
round=0
while [ "$round" -lt "$times" ]; do
    round=$((round + 1))
    for app in ${APPS:-sor is water lu tsp jacobi}; do
        for nodes in $nodes_list; do for threads in $threads_list; do
            for guard in $guards; do for transport in $transports; do
                set -- "$multigrain" run -n "$nodes" -t "$threads" --guard "$guard" \
                    --transport "$transport" --timeout 120 "$dir/$app-mg"
                # shellcheck disable=SC2046 # flags are words
                if "$@" $(flags_of "$app") >"$log" 2>&1 && grep -q 'result .* check=ok ' "$log"; then
                    passed=$((passed + 1))
                else
                    echo "FAILED (status $?): $* $(flags_of "$app")"
                    cat "$log"
                    failed=$((failed + 1))
                fi
            done; done
        done; done
    done
    [ "$times" -eq 1 ] || echo "round $round of $times: $passed passed, $failed failed"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
