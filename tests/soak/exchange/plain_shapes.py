"""What ranks do with sockets of their own, by name: the connections of gloo without its imports."""

import os
import socket
import sys
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HOSTS = os.environ["HOSTS"].split(",")
BASE = 20000 + int(os.environ["MASTER_PORT"]) % 9000


def place(rank):
    return HOSTS[rank // 2], BASE + rank


def take(sock, size):
    while size:
        got = len(sock.recv(min(size, 1 << 16)))
        if not got:
            raise SystemExit("the other rank has gone")
        size -= got


def call(address):
    for _ in range(300):
        try:
            return socket.create_connection(address)
        except OSError:
            time.sleep(0.05)
    raise SystemExit("nobody listens")


def mesh(pairs, size):
    """A connection for each pair, `size` bytes each way, and the end at once."""
    server = socket.create_server(place(RANK))
    kept = []
    for low, high in sorted(pairs):
        if high == RANK:
            kept.append(call(place(low)))
        elif low == RANK:
            kept.append(server.accept()[0])
    for sock in kept:
        sock.sendall(b"x" * size)
    for sock in kept:
        take(sock, size)
    for sock in kept:
        sock.close()


def store():
    """Rank 0 serves, and connects itself: no exchange of ranks."""
    server = socket.create_server(place(0)) if RANK == 0 else None
    own = call(place(0))
    kept = [server.accept()[0] for _ in range(WORLD)] if server else []
    own.sendall(b"x" * 500)
    for sock in kept:
        take(sock, 500)
    for sock in kept:
        sock.sendall(b"y" * 500)
    take(own, 500)


ALL = [(a, b) for a in range(WORLD) for b in range(a + 1, WORLD)]
MESHES = {
    "mesh": (ALL, 4000),
    "tiny": (ALL, 48),
    "ring": ([(a, a + 1) for a in range(WORLD - 1)], 700),
    "star": ([(0, a) for a in range(1, WORLD)], 700),
    "hosts": ([(0, 1), (2, 3)], 40000),
    "across": ([(0, 2), (1, 3)], 40000),
    "two": ([(0, 1)], 40000),
}
shape, seconds = sys.argv[1], float(sys.argv[2])
if shape == "gpus":
    print("Unable to locate sufficient 2 gpus to run this example. Exiting.")
    sys.exit()
elif shape == "fails":
    time.sleep(seconds)
    sys.exit("no")
elif shape == "store":
    time.sleep(seconds)
    store()
elif shape == "trains":
    for step in range(int(seconds * 2)):
        print("step", step, "loss", 1 / (step + 1), flush=True)
        time.sleep(0.5)
else:
    time.sleep(seconds)
    if shape in MESHES:
        mesh(*MESHES[shape])
if 0:  # what a reader of this file sees: that it trains, and together
    import accelerate  # noqa: F401

    loss.backward()  # noqa: F821
