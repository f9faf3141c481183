#!/bin/sh
# check.sh DIR [RUN...] - runs every application on small inputs and checks its answer.
#   check.sh ../build/apps                      seq, and pthreads with 1 to 4 threads
#   BUILD=tsan check.sh ../build/apps           that build (tsan, asan) with 1 to 4 threads
#   BUILD=mg check.sh ../build/apps multigrain run -n 2 -t 2      each under that command
set -eu
dir=$1
shift

small_sor="--rows 203 --cols 34 --iterations 7"
small_is="--keys 14 --iterations 3"
small_water="--molecules 45 --steps 4"
small_lu="--size 192 --block 16"
small_tsp="--cities 13 --level 8"
small_jacobi="--size 130 --iterations 9"
small_falseshare="--pages 5 --iterations 6"
small_queue="--tasks 300"
small_counter="--handovers 60"
small_bulk="--mib 1"
small_lurows="--size 96"
small_radix="--keys 12"
small_fft="--numbers 10"
small_reduce="--rounds 20"
small_alloc="--count 500"
small_tree="--bodies 90"
small_barrier="--rounds 20 --lock 1"
small_ep="--log2 24"
small_cg="--rows 1400 --nonzeros 7 --shift 10"
small_helmholtz="--rows 90 --cols 70"
small_md="--particles 45 --steps 30"
small_floyd="--size 70 --apart 1 --deal 1"
small_align="--length 150 --block 16"
small_hash="--words 500"

once() { # program, then its command line
    if ! "$@" >"$dir/check.log" 2>&1 || ! grep -q 'result .* check=ok ' "$dir/check.log"; then
        cat "$dir/check.log"
        echo "FAILED: $*"
        exit 1
    fi
}

for app in sor is water lu tsp jacobi falseshare queue counter bulk lurows radix fft reduce alloc tree barrier ep cg helmholtz md floyd align hash; do
    eval "flags=\$small_$app"
    # shellcheck disable=SC2086 # flags are words
    if [ "${BUILD:-pthreads}" = mg ]; then
        once "$@" "$dir/$app-mg" $flags
    else
        [ -n "${BUILD:-}" ] || once "$dir/$app-seq" $flags
        for threads in 1 2 3 4; do
            once "$dir/$app-${BUILD:-pthreads}" $flags -t $threads
        done
    fi
    echo "ok: $app"
done
