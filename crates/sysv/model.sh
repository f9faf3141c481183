#!/bin/sh
# Explores what a site keeps of mappings against a model of the kernel (src/site/exports/model), all worlds and RUNS ways by chance
# (4000), and writes the figures into a document: model.sh [--proof FILE].
set -eu
cd "$(dirname "$0")/../.."
proof=
if [ "${1:-}" = --proof ]; then proof=$2; fi
said=$(mktemp)
trap 'rm -f "$said" "$said.table"' EXIT
MULTIGRAIN_SITE_RUNS=${RUNS:-4000} cargo test -p multigrain-sysv --lib site::exports::model -- \
    --nocapture --include-ignored --test-threads 1 > "$said" 2>&1 || { cat "$said"; exit 1; }
{
    echo '| world | states | ways | depth |'
    echo '|---|--:|--:|--:|'
    sed -n 's/^\(test .* \.\.\. \)\{0,1\}\(.*\): \([0-9]*\) states, \([0-9]*\) ways, depth \([0-9]*\), .*/| \2 | \3 | \4 | \5 |/p' "$said" |
        sort -u
    echo
    sed -n 's/^\(test .* \.\.\. \)\{0,1\}\([0-9]* ways, [0-9]* actions\), .*/By chance, through worlds of three segments, two to five images, 200 takings: \2, none wrong./p' "$said"
} > "$said.table"
cat "$said.table"
if [ -n "$proof" ]; then
    awk -v table="$said.table" '
        /<!-- \/site figures -->/ { inside = 0 }
        !inside { print }
        /<!-- site figures -->/ { inside = 1; while ((getline line < table) > 0) print line }' "$proof" > "$said"
    cat "$said" > "$proof"
fi
