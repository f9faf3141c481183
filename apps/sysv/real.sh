#!/bin/sh
# real.sh [RUNNER...] - programs of others that use System V IPC, each with a small check of its own, one
# line each; what is not installed is skipped, with a line. As check.sh: natively, or under a runner.
#   perl, python and PHP: one job of all the nodes. stress-ng, fakeroot, PostgreSQL: one on each node.
#   apt-get install perl php-cli python3-sysv-ipc stress-ng fakeroot postgresql
#   P=n  processes of a native run (2)   ONLY=name   SECONDS_EACH=n (180)
set -u
cd "$(dirname "$0")" || exit 2
limit=${SECONDS_EACH:-180}

if [ $# -eq 0 ] && [ -z "${IN_NAMESPACE:-}" ] && unshare --ipc true 2>/dev/null; then
    IN_NAMESPACE=1 exec unshare --ipc "./$(basename "$0")"
fi

processes=${P:-2}
[ $# -eq 0 ] || processes=1
previous=
for word in "$@"; do # -n 2, -n2, --nodes 2, --nodes=2
    case $previous in -n | --nodes) processes=$word ;; esac
    case $word in
    --nodes=*) processes=${word#--nodes=} ;;
    -n[0-9]*) processes=${word#-n} ;;
    esac
    previous=$word
done
runner=$#
runner_words=
for word in "$@"; do
    runner_words="$runner_words '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done

dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
cp real/* "$dir" && chmod 755 "$dir" "$dir"/* || exit 2 # another user may read them there
key=$((0x42000000 + $$ % 4096 * 4096))
objects() {
    ipcs | awk '$2 ~ /^[0-9]+$/ { print $1, $2 }'
}
before=$(objects)
failed=0

wanted() { # name, then what must be there
    [ -z "${ONLY:-}" ] || [ "$ONLY" = "$1" ] || return 1
    name=$1
    shift
    if ! "$@" >/dev/null 2>&1; then
        echo "$name: skipped: not installed"
        return 1
    fi
}

start() { # how many natively; lines of "ok" there must be; then the command
    copies=$1
    lines=$2
    shift 2
    if [ "$runner" -gt 0 ]; then
        eval "timeout \"\$limit\" $runner_words \"\$@\"" >"$dir/out" 2>&1
        status=$?
    else
        pids=
        status=0
        i=1
        : >"$dir/out"
        while [ "$i" -le "$copies" ]; do
            timeout "$limit" "$@" >>"$dir/out" 2>&1 &
            pids="$pids $!"
            i=$((i + 1))
        done
        for pid in $pids; do
            wait "$pid" || status=$?
        done
    fi
    if [ $status -eq 0 ] && [ "$(grep -c "$ok" "$dir/out")" -eq "$lines" ]; then
        grep "$ok" "$dir/out" | sed "s/^stress-ng:.*] /stress-ng: /"
    else
        cat "$dir/out"
        echo "FAILED ($status): $name"
        failed=$((failed + 1))
    fi
}

each=$processes # of those that run one on each node
[ "$runner" -gt 0 ] || each=1

ok=': ok$'
wanted perl perl -MIPC::SysV -e 1 && start "$processes" 1 perl "$dir/perl.pl" "$processes" $((key + 1))
wanted python /usr/bin/python3 -c 'import sysv_ipc' &&
    start "$processes" 1 /usr/bin/python3 "$dir/python.py" "$processes" $((key + 2))
wanted php php -r 'exit(function_exists("shmop_open") && function_exists("sem_get") ? 0 : 1);' &&
    start "$processes" 1 php "$dir/php.php" "$processes" $((key + 3))
wanted fakeroot fakeroot-sysv true && start 1 "$each" "$dir/fakeroot.sh"
ok='successful run completed'
wanted stress-ng stress-ng --version &&
    start 1 "$each" stress-ng --shm-sysv 2 --sem-sysv 2 --msg 2 --timeout 5 --verify --temp-path "$dir"
ok=': ok$'
BIN=$(find /usr/lib/postgresql /usr/pgsql* -name initdb 2>/dev/null | sort | tail -1)
export BIN="${BIN%/initdb}"
if wanted postgres test -n "$BIN"; then
    if [ "$(id -u)" -ne 0 ]; then
        start 1 "$each" "$dir/postgres.sh"
    elif id postgres >/dev/null 2>&1; then
        cd / && start 1 "$each" runuser -u postgres -- "$dir/postgres.sh"
    else
        echo "postgres: skipped: it does not run as root, and there is no user postgres"
    fi
fi

if [ "$runner" -eq 0 ] && [ "$before" != "$(objects)" ]; then
    echo "FAILED: System V objects were left, or lost:"
    echo "before: $before"
    echo "after: $(objects)"
    failed=$((failed + 1))
fi
[ $failed -eq 0 ] && echo "real: ok" || echo "real: $failed FAILED"
[ $failed -eq 0 ]
