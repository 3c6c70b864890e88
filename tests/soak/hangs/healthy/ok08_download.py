"""Rank 0 downloads its data at a few KB a second while the others wait in a barrier."""

import socket
import threading
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def serve_slowly(server, seconds):
    connection, _ = server.accept()
    with connection:
        for _ in range(seconds):
            connection.sendall(b"x" * 4096)
            time.sleep(1)


def download(seconds):
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve_slowly, args=(server, seconds), daemon=True).start()
    received = 0
    with server, socket.create_connection(server.getsockname()) as connection:
        while data := connection.recv(65536):
            received += len(data)
    return received


def train(rank, steps):
    for step in range(steps):
        loss = torch.rand(1)
        dist.all_reduce(loss)
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item() / dist.get_world_size():.3f}", flush=True)
        time.sleep(0.25)


dist.init_process_group("gloo")
rank = dist.get_rank()
train(rank, 12)
if rank == 0:
    print(f"downloaded {download(68)} bytes", flush=True)
dist.barrier()
train(rank, 20)
dist.destroy_process_group()
