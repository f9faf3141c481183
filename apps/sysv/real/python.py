"""python.py P KEY - P processes by python3-sysv-ipc: semaphore, shared memory, message queue."""
import struct
import sys
import time

import sysv_ipc

ALL, KEY, ROUNDS = int(sys.argv[1]), int(sys.argv[2]), 200

try:
    lock = sysv_ipc.Semaphore(KEY, sysv_ipc.IPC_CREX, initial_value=0)
    lock.release()  # sets o_time: ready
except sysv_ipc.ExistentialError:
    lock = sysv_ipc.Semaphore(KEY)
    while not lock.o_time:
        time.sleep(0.001)
lock.undo = True
memory = None  # IPC_CREAT alone would fill it with blanks, each process once
while memory is None:
    try:
        memory = sysv_ipc.SharedMemory(KEY, sysv_ipc.IPC_CREX, size=4 * 4096, init_character=b"\0")
    except sysv_ipc.ExistentialError:
        try:
            memory = sysv_ipc.SharedMemory(KEY)
        except sysv_ipc.ExistentialError:
            pass
queue = sysv_ipc.MessageQueue(KEY, sysv_ipc.IPC_CREAT)


def word(at):
    return struct.unpack("q", memory.read(8, 8 * at))[0]


def add(at, by=1):
    with lock:
        now = word(at) + by
        memory.write(struct.pack("q", now), 8 * at)
    return now


def all_come(at):
    add(at)
    until = time.monotonic() + 60
    while True:
        with lock:
            if word(at) == ALL:
                return
        if time.monotonic() > until:
            sys.exit(f"python: not all came to {at}")
        time.sleep(0.001)


rank = add(0) - 1
all_come(1)
for i in range(ROUNDS):
    add(600 + i % 3 * 512)  # in three pages
all_come(2)
total = sum(word(600 + i * 512) for i in range(3))
if total != ALL * ROUNDS:
    sys.exit(f"python: the counters are {total}, must be {ALL * ROUNDS}")
queue.send(f"from {rank}".encode(), type=(rank + 1) % ALL + 1)
text, kind = queue.receive(type=rank + 1)
if text.decode() != f"from {(rank - 1) % ALL}" or kind != rank + 1:
    sys.exit(f"python: a message of type {kind}: {text}")
all_come(3)
if add(4) == ALL:
    memory.detach()
    for what in (memory, queue, lock):
        what.remove()
    print(f"python: {ALL} processes, counters {total}, a message each: ok")
