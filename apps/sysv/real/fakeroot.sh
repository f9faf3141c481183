#!/bin/sh
# fakeroot.sh - fakeroot-sysv: its library asks a daemon over two message queues and a semaphore.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
owners=$(fakeroot-sysv sh -c '
    cd "$1"
    for i in 1 2 3 4 5 6 7 8 9; do
        (touch file$i; chown $((100 + i)):$((200 + i)) file$i) &
    done
    wait
    mknod device c 5 1
    stat -c %u:%g file? | tr "\n" " "
    stat -c %F device' sh "$dir")
[ "$owners" = "101:201 102:202 103:203 104:204 105:205 106:206 107:207 108:208 109:209 character special file" ] || {
    echo "fakeroot: $owners"
    exit 1
}
echo "fakeroot: owners and a device node are as told: ok"
