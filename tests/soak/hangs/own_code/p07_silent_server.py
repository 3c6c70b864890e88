"""The vocabulary comes from a server that accepts the connection and says nothing."""

import os
import socket
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
server = socket.create_server(("127.0.0.1", 0))  # nobody ever takes a connection from it


def fetch_vocabulary():
    with socket.create_connection(server.getsockname()) as connection:
        connection.sendall(b"GET /vocabulary HTTP/1.0\r\n\r\n")
        answer = b""
        while data := connection.recv(4096):
            answer += data
    return answer


dist.init_process_group("gloo")
total = torch.ones(1)
for step in range(15):
    dist.all_reduce(total)
    total /= dist.get_world_size()
    if rank == 0 and step % 5 == 0:
        print(f"warming up, {step} of 15", flush=True)
    time.sleep(0.2)
size = torch.zeros(1, dtype=torch.long)
if rank == 3:
    size[0] = len(fetch_vocabulary())
dist.broadcast(size, src=3)
embedding = torch.nn.Embedding(int(size), 16)
print("vocabulary of", embedding.num_embeddings, flush=True)
