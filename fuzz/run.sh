#!/usr/bin/env bash
# Fuzzes every target, so that all of them together take SECONDS: fuzz/run.sh SECONDS [--proof FILE]
#
# First each target takes its committed corpus again, then it makes new input. As many targets run at
# once as there are cores. A find ends the run with the target's name and the file that repeats it.
# With --proof the figures go into that file (docs/PROOF.md), and what the run learnt into the corpus.
set -euo pipefail

usage() {
    echo "multigrain: usage: fuzz/run.sh SECONDS [--proof FILE]" >&2
    exit 2
}
fail() {
    echo "multigrain: $1" >&2
    exit 1
}

[[ ${1:-} =~ ^[1-9][0-9]*$ ]] || usage
seconds=$1
proof=
if [[ $# -gt 1 ]]; then
    [[ $# -eq 3 && $2 == --proof ]] || usage
    proof=$(realpath -m "$3")
fi
cd "$(dirname "$0")"
command -v c++ >/dev/null || fail "fuzzing needs a C++ compiler: install g++"

targets=(frame handshake tls node contents control messages launcher layout release)
cores=$(nproc)
each=$((seconds * cores / ${#targets[@]}))
((each > 0)) || each=1
host=$(rustc -vV | sed -n 's/^host: //p')
out=${CARGO_TARGET_DIR:-$PWD/../target}/fuzz
bin=$out/$host/fuzz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p artifacts

# What `cargo fuzz build -s none` does; all of it is stable Rust.
coverage="--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage+=" -Cllvm-args=-sanitizer-coverage-$option"
done
RUSTFLAGS="${RUSTFLAGS:-} $coverage" cargo build --quiet --profile fuzz --locked --features targets \
    --target "$host" --target-dir "$out" "${targets[@]/#/--bin=}"

# One target, in a directory of its own; its log and its exit status stay there.
fuzz() {
    local target=$1
    mkdir -p "$work/$target"
    "$bin/$target" -max_total_time="$each" -max_len=4096 -timeout=20 -rss_limit_mb=2048 \
        -detect_leaks=0 -print_final_stats=1 -artifact_prefix="artifacts/$target-" \
        "$work/$target" "corpus/$target" >"$work/$target.log" 2>&1 ||
        echo $? >"$work/$target.failed"
}

for target in "${targets[@]}"; do
    while (($(jobs -rp | wc -l) >= cores)); do
        wait -n
    done
    echo "fuzz $target: $each s"
    fuzz "$target" &
done
wait

for target in "${targets[@]}"; do
    if [[ -e $work/$target.failed ]]; then
        tail -n 25 "$work/$target.log" >&2
        input=$(sed -n 's/.*Test unit written to //p' "$work/$target.log" | tail -n 1)
        fail "fuzz target $target failed; ${input:+repeat it with: $bin/$target fuzz/$input}"
    fi
done

# The last number behind a word in a log.
figure() {
    sed -n "s/.*$2 *\([0-9]\+\).*/\1/p" "$work/$1.log" | tail -n 1
}

body="| target | executions | per second | coverage | features | corpus | crashes |
|---|---|---|---|---|---|---|"
for target in "${targets[@]}"; do
    if [[ -n $proof ]]; then
        # What reaches new code stays, and nothing else.
        mkdir "$work/$target.merged"
        "$bin/$target" -merge=1 -use_counters=0 -set_cover_merge=1 -detect_leaks=0 "$work/$target.merged" "corpus/$target" \
            "$work/$target" >"$work/$target.merge" 2>&1
        rm -r "corpus/$target"
        mv "$work/$target.merged" "corpus/$target"
    fi
    inputs=$(find "corpus/$target" -type f | wc -l)
    body+="
| $target | $(figure "$target" stat::number_of_executed_units:) |\
 $(figure "$target" stat::average_exec_per_sec:) | $(figure "$target" cov:) |\
 $(figure "$target" ft:) | $inputs | 0 |"
done
body+="

$each s a target, $cores at once; ${#targets[@]} targets. Coverage counts code edges, features also how
often each was taken; the corpus is what is committed, inputs that together reach all that code."
echo "$body"
[[ -n $proof ]] || exit 0

# The section, in the place and form of crates/cli/src/proof.rs.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' ../Cargo.toml | head -n 1)
{
    echo "<!-- fuzz -->"
    echo "## Hostile input, fuzzed"
    printf '\n`fuzz/run.sh %s --proof docs/PROOF.md`, version %s\n\n%s\n' "$seconds" "$version" "$body"
    echo "<!-- /fuzz -->"
} >"$work/section"
if [[ ! -e $proof ]]; then
    printf '# Proof\n\nEvery section below was written by the command it names, when it had run to its end.\n' >"$proof"
fi
if grep -q '^<!-- fuzz -->$' "$proof"; then
    awk -v section="$work/section" '
        $0 == "<!-- fuzz -->" { while ((getline line < section) > 0) print line; skip = 1 }
        !skip { print }
        $0 == "<!-- /fuzz -->" { skip = 0 }' "$proof" >"$work/proof"
else
    { cat "$proof"; echo; cat "$work/section"; } >"$work/proof"
fi
cat "$work/proof" >"$proof"
