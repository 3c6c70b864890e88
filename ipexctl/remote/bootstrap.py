"""What mpirun starts instead of ssh: hands `HOST COMMAND` to the agent on node0 and waits.

The agent passes it over the controller's open connections to the agent of that host. No SSH between
the nodes, so no keys, no host keys and no prompts there. Only with --launcher ssh the answer is a
command for ssh, and this becomes it.
"""

import json
import os
import socket
import sys


def main():
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(os.environ["IPEXCTL_SOCKET"])
    link.sendall(json.dumps({"hello": "launch", "argv": sys.argv[1:]}).encode("utf-8") + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        data = link.recv(4096)
        if not data:
            return 255
        answer += data
    message = json.loads(answer.decode("utf-8"))
    if "refused" in message:
        sys.stderr.write("ipexctl: %s\n" % message["refused"])
        return 255
    if "exec" in message:  # --launcher ssh: the link stays open until that program has ended
        os.set_inheritable(link.fileno(), True)
        os.execvp(message["exec"][0], message["exec"])
    return message["exit"]


if __name__ == "__main__":
    os._exit(main() & 255)
