"""What mpirun starts instead of ssh: hands `HOST COMMAND` to the agent on node0 and waits.

The agent passes it over the controller's open connections to the agent of that host. No SSH between
the nodes, so no keys, no host keys and no prompts there. Only with --launcher ssh the answer is a
command for ssh, which is run here.
"""

import _signal as signal
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
    if "run" in message:  # --launcher ssh
        code = run(message["run"])
        if code:  # mpirun ends the other ranks when it hears of it: the controller hears it first
            send(link, {"code": code})
            answer(link)
        return code
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
            return {"exit": 255}  # the agent has ended
        said += data
    return marshal.loads(said[LENGTH.size :])


def run(argv):
    """It ends when we are ended. Returns its exit code; 255, as ssh has it, for all else."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            die_with(parent)
            os.execvp(argv[0], argv)
        except OSError as e:
            sys.stderr.write("ipexctl: %s: %s\n" % (argv[0], e))
        finally:
            os._exit(255)
    _, status = os.waitpid(pid, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 255


def die_with(parent):
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    except Exception:
        pass  # no libffi: the sweep still ends it
    if os.getppid() != parent:
        os._exit(255)


if __name__ == "__main__":
    os._exit(main() & 255)
