#!/bin/sh
# postgres.sh - a PostgreSQL server whose shared memory is System V's (main and dynamic), pgbench on it, and
# the sums that must agree. Not as root. BIN: where initdb, pg_ctl and pgbench are.
set -eu
data=$(mktemp -d)
stop() {
    "$BIN/pg_ctl" -D "$data/db" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$data"
}
trap stop EXIT
trap 'exit 1' TERM INT HUP
export PGHOST="$data" PGDATABASE=postgres
"$BIN/initdb" -D "$data/db" -A trust --no-sync >"$data/log" 2>&1 || { cat "$data/log"; exit 1; }
cat >>"$data/db/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$data'
shared_memory_type = sysv
dynamic_shared_memory_type = sysv
shared_buffers = 16MB
fsync = off
END
"$BIN/pg_ctl" -D "$data/db" -l "$data/log" -w start >/dev/null || { cat "$data/log"; exit 1; }
query() {
    "$BIN/psql" -qAtX -v ON_ERROR_STOP=1 -c "$1"
}
[ "$(query 'show shared_memory_type')" = sysv ]
"$BIN/pgbench" -i -q >"$data/log2" 2>&1 || { cat "$data/log2" "$data/log"; exit 1; }
"$BIN/pgbench" -c 4 -j 2 -t 200 >"$data/log2" 2>&1 || { cat "$data/log2" "$data/log"; exit 1; }
grep -q 'actually processed: 800/800' "$data/log2" || { cat "$data/log2"; exit 1; }
sums=$(query 'select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
    (select sum(bbalance) from pgbench_branches), (select sum(delta) from pgbench_history)')
echo "$sums" | awk -F'|' '$1 != $2 || $1 != $3 || $1 != $4 { exit 1 }' || { echo "postgres: sums differ: $sums"; exit 1; }
# Parallel workers: they attach the dynamic segments.
workers=$(query 'set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0;
    set max_parallel_workers_per_gather = 2; select count(*) from pgbench_accounts')
[ "$workers" = 100000 ] || { echo "postgres: $workers rows, must be 100000"; exit 1; }
"$BIN/pg_ctl" -D "$data/db" -m fast -w stop >/dev/null
echo "postgres: 800 transactions by 4 clients, sums agree: ok"
