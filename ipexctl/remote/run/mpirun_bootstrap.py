"""What mpirun starts instead of ssh: hands `HOST COMMAND` to the first host's supervisor and waits.

That supervisor, the hub, passes it to the supervisor of HOST. No SSH between the hosts, so no keys,
no host keys and no prompts there.
"""

import _socket as socket
import marshal
import os
import struct
import sys

LENGTH = struct.Struct("=I")  # of a message, as in rank_wrapper.py: each is a program in one file


def main():
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(os.environ["IPEXCTL_SOCKET"])
    send(link, {"hello": "launch", "argv": sys.argv[1:]})
    message = answer(link)
    if "refused" in message:
        sys.stderr.write("ipexctl: %s\n" % message["refused"])
        return 255
    sys.stderr.write(message.get("said", ""))
    return message["exit"]


def send(link, message):
    data = marshal.dumps(message, 2)
    link.sendall(LENGTH.pack(len(data)) + data)


def answer(link):
    said = b""
    while len(said) < LENGTH.size or len(said) < LENGTH.size + LENGTH.unpack_from(said)[0]:
        data = link.recv(4096)
        if not data:
            return {"exit": 255}  # the supervisor has ended
        said += data
    return marshal.loads(said[LENGTH.size :])


if __name__ == "__main__":
    os._exit(main() & 255)
