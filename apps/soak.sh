#!/bin/sh
# soak.sh DIR MULTIGRAIN [TIMES] - applications on small inputs on real nodes, their answers checked:
# every one on 1, 2, 4 and 8 nodes, 1 and 3 threads each, both guards, both transports; then SOR,
# WATER, falseshare, queue, lurows, tree, cg, helmholtz, md, floyd, align and hash under each consistency on 2, 4 and 8
# nodes, lazy release also with homes whose writes are found by scans; TIMES times (default 1).
# Says what failed with its output; ends with a line "N passed, M failed".
# In the environment, lists that take the place of these: APPS NODES THREADS GUARDS TRANSPORTS, and
# for the second part CONSISTENCIES (may be empty) RELEASE_APPS RELEASE_SIZES (nodes x threads).
set -u
dir=$1
multigrain=$2
times=${3:-1}
nodes_list=${NODES:-1 2 4 8}
threads_list=${THREADS:-1 3}
guards=${GUARDS:-uffd mprotect}
transports=${TRANSPORTS:-unix tcp}
consistencies=${CONSISTENCIES-sequential eager-release lazy-release auto}

flags_of() {
    case $1 in
    sor) echo "--rows 203 --cols 34 --iterations 7" ;;
    is) echo "--keys 14 --iterations 3" ;;
    water) echo "--molecules 45 --steps 4" ;;
    lu) echo "--size 192 --block 16" ;;
    tsp) echo "--cities 13 --level 8" ;;
    jacobi) echo "--size 130 --iterations 9" ;;
    falseshare) echo "--pages 5 --iterations 6" ;;
    queue) echo "--tasks 300" ;;
    counter) echo "--handovers 60" ;;
    bulk) echo "--mib 1 --what 1" ;;
    lurows) echo "--size 96" ;;
    radix) echo "--keys 12" ;;
    fft) echo "--numbers 10" ;;
    reduce) echo "--rounds 20" ;;
    alloc) echo "--count 500" ;;
    tree) echo "--bodies 90" ;;
    barrier) echo "--rounds 20 --lock 1" ;;
    ep) echo "--log2 18" ;;
    cg) echo "--rows 300 --nonzeros 4 --iterations 2" ;;
    helmholtz) echo "--rows 90 --cols 70 --iterations 20" ;;
    md) echo "--particles 45 --steps 30" ;;
    floyd) echo "--size 70 --deal 1" ;;
    align) echo "--length 150 --block 16" ;;
    hash) echo "--words 500" ;;
    esac
}

passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

job() { # application, then the options of the launcher
    app=$1
    shift
    set -- "$multigrain" run --timeout 120 "$@" "$dir/$app-mg"
    # shellcheck disable=SC2046 # flags are words
    if "$@" $(flags_of "$app") >"$log" 2>&1 && grep -q 'result .* check=ok ' "$log"; then
        passed=$((passed + 1))
    else
        echo "FAILED (status $?): $* $(flags_of "$app")"
        cat "$log"
        failed=$((failed + 1))
    fi
}

every_kind_of_job() {
    for app in ${APPS:-sor is water lu tsp jacobi falseshare queue counter bulk lurows radix fft reduce alloc tree barrier ep cg helmholtz md floyd align hash}; do
        for nodes in $nodes_list; do for threads in $threads_list; do
            for guard in $guards; do for transport in $transports; do
                job "$app" -n "$nodes" -t "$threads" --guard "$guard" --transport "$transport"
            done; done
        done; done
    done
}

every_consistency() {
    for consistency in $consistencies; do
        for app in ${RELEASE_APPS:-sor water falseshare queue lurows tree cg helmholtz md floyd align hash}; do
            for size in ${RELEASE_SIZES:-2x3 4x3 8x1}; do
                job "$app" -n "${size%x*}" -t "${size#*x}" --consistency "$consistency"
                [ "$consistency" != lazy-release ] ||
                    job "$app" -n "${size%x*}" -t "${size#*x}" --consistency "$consistency" \
                        --guard mprotect --tracking scans
            done
        done
    done
}

round=0
while [ "$round" -lt "$times" ]; do
    round=$((round + 1))
    every_kind_of_job
    every_consistency
    [ "$times" -eq 1 ] || echo "round $round of $times: $passed passed, $failed failed"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
