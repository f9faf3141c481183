"""Nodes add to an array of numbers in shared memory, each its share, and one counter under a lock; run by python3."""
import ctypes
import sys

mg = ctypes.CDLL(sys.argv[1])
mg.mg_calloc.restype = mg.mg_lookup.restype = ctypes.c_void_p
mg.mg_calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
mg.mg_lookup.argtypes = [ctypes.c_char_p]
mg.mg_publish.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
mg.mg_strerror.restype = ctypes.c_char_p

NUMBERS = 1000


def ok(code):
    if code != 0:
        sys.exit(mg.mg_strerror(code).decode())


ok(mg.mg_init(None, None))
node, nodes = mg.mg_node(), mg.mg_nodes()
if node == 0:
    ok(mg.mg_publish(b"numbers", mg.mg_calloc(NUMBERS + 1, 8)))
shared = (ctypes.c_int64 * (NUMBERS + 1)).from_address(mg.mg_lookup(b"numbers"))
for at in range(node, NUMBERS, nodes):
    shared[at] = at * at
for _ in range(100):
    ok(mg.mg_lock(1))
    shared[NUMBERS] += 1
    ok(mg.mg_unlock(1))
ok(mg.mg_barrier(0, 0))
assert sum(shared[:NUMBERS]) == sum(at * at for at in range(NUMBERS))
assert shared[NUMBERS] == 100 * nodes
ok(mg.mg_finalize())
