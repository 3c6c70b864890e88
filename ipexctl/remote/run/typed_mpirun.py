"""mpirun in a person's shell: what it starts instead of ssh, and its daemons on every host.

On the shell's host what mpirun asks for is read and told to ipexctl, which has it started by the
agent of the host that mpirun named. All of it ends with the agents.
"""

import itertools
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile

from ipexctl.remote import root_folder, scratch_folder
from ipexctl.remote.hub import mpi_launch
from ipexctl.remote.own_process import start_thread
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run import host_programs, mpirun_bootstrap
from ipexctl.remote.run_files import run_folders

OUTPUT = 64 << 10  # bytes of a daemon's last words
PYTHON = """\
#!/bin/sh
rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
if [ -n "$rank" ] && [ -z "$RANK" ]; then
    export RANK="$rank" WORLD_SIZE="${PMI_SIZE:-$OMPI_COMM_WORLD_SIZE}"
    export LOCAL_RANK="${MPI_LOCALRANKID:-$OMPI_COMM_WORLD_LOCAL_RANK}"
    export LOCAL_WORLD_SIZE="${MPI_LOCALNRANKS:-$OMPI_COMM_WORLD_LOCAL_SIZE}"
fi
exec %s "$@"
"""


def op_serve(call, header):
    """{root, run_id, env, daemons, run, hostfile, python}; it lasts as long as the agent.

    Events: "ready", "launch", "gone", "ended". Orders: {"spawn", "argv"}, {"kill"}, {"answer"}.
    """
    serving = Serving(call, header)
    try:
        serving.serve()
    finally:
        serving.end()


class Serving:
    def __init__(self, call, header):
        self.call = call
        self.run_id = run_folders.run_id(header)
        top = root_folder.checked(header["root"])
        self.dir = root_folder.subfolder(top, "runs", self.run_id)
        self.env = dict(host_programs.own(host_programs.KEPT), **header["env"])
        self.env[rank_wrapper.RUN_MARK] = self.run_id
        self.daemons = header["daemons"]
        self.run = header["run"]  # None: the shell is on another host
        self.hostfile = header["hostfile"]
        self.python = header["python"]
        self.bin = os.path.join(self.dir, "bin")
        self.env["PATH"] = self.bin + ":" + self.env.get("PATH", os.defpath)
        self.scratch = scratch_folder.make()
        self.env["TMPDIR"] = self.scratch
        self.children = {}  # key -> Popen
        self.launches = {}  # key -> connection of what mpirun started

    def serve(self):
        run_folders.hold(self.dir)
        rank_wrapper.set_subreaper()
        self.call.agent.at_end.append(self.end)
        self.write_python()
        if self.run:
            self.write_hostfile()
            start_thread(self.accept, self.listener())
        self.call.emit({"event": "ready", "bootstrap": self.program(), "bin": self.bin})
        while True:
            frame = self.call.recv()
            if frame is None:
                return
            self.obey(frame[0])

    def obey(self, order):
        if "spawn" in order:
            self.spawn(order["spawn"], order["argv"])
        elif "kill" in order:
            self.kill(order["kill"])
        elif "answer" in order:
            self.answer(order["answer"], order["says"])

    def write_python(self):
        """The environment's Python, for ranks that mpirun starts: torch reads RANK, MPI sets its
        own names."""
        os.makedirs(self.bin, 0o700, exist_ok=True)
        for name in ("python", "python3"):
            text = PYTHON % shlex.quote(self.python)
            host_programs.write_file(os.path.join(self.bin, name), text, 0o700)

    # -- what mpirun starts instead of ssh --

    def program(self):
        return os.path.join(self.scratch, "bootstrap")

    def listener(self):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = os.path.join(self.scratch, "socket")
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(512)
        code = os.path.join(self.scratch, "bootstrap.pyc")
        host_programs.write_file(code, host_programs.compiled(mpirun_bootstrap), 0o600)
        words = " ".join(map(shlex.quote, (sys.executable, "-IS", code)))
        text = '#!/bin/sh\nIPEXCTL_SOCKET=%s exec %s "$@"\n' % (shlex.quote(path), words)
        host_programs.write_file(self.program(), text, 0o700)
        return listener

    def write_hostfile(self):
        """Where the project has none."""
        try:
            file = os.open(self.hostfile, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return
        with open(file, "w") as f:
            f.write("".join(name + "\n" for name in self.run["names"]))

    def accept(self, listener):
        for number in itertools.count(1):
            link, _ = listener.accept()
            self.launches[number] = link
            start_thread(self.launch, number, link)

    def launch(self, number, link):
        reader = rank_wrapper.Messages(link)
        argv = (reader.next() or {}).get("argv", [])
        try:
            target, command = mpi_launch.read(self.run, argv)
        except mpi_launch.NotOfThisRun as e:
            self.answer(number, {"refused": str(e)})
        else:
            event = {"event": "launch", "key": number, "host": target["host"], "argv": command}
            self.call.emit(event)
            reader.next()  # returns when mpirun has ended it, or it has its answer
            self.call.emit({"event": "gone", "key": number})
        self.launches.pop(number).close()

    def answer(self, number, says):
        link = self.launches.get(number)
        if link is not None:
            try:
                rank_wrapper.send(link, says)
            except OSError:
                pass  # mpirun has ended it

    # -- daemons of mpirun --

    def spawn(self, key, argv):
        """In this thread, which lasts: the kernel ends the daemon with it."""
        if argv[0] not in self.daemons:
            self.ended(key, 127, "%s is not a daemon of this MPI" % argv[0])
            return
        parent = os.getpid()
        log = tempfile.TemporaryFile(dir=self.scratch)  # noqa: SIM115  wait() closes it
        try:
            child = subprocess.Popen(
                argv,
                env=self.env,
                cwd=self.dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: rank_wrapper.die_with_parent(parent),
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as e:
            log.close()
            self.ended(key, 127, str(e))
            return
        self.children[key] = child
        start_thread(self.wait, key, child, log)

    def wait(self, key, child, log):
        code = child.wait()
        with log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - OUTPUT))
            said = log.read().decode("utf-8", "replace")
        self.children.pop(key, None)
        self.ended(key, code if code >= 0 else 128 - code, said)

    def ended(self, key, code, said):
        self.call.emit({"event": "ended", "key": key, "code": code, "said": said})

    def kill(self, key):
        child = self.children.get(key)
        if child is not None and host_programs.alive(child.pid):
            below = rank_wrapper.descendants(child.pid, rank_wrapper.processes())
            for pid in {child.pid} | below:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass

    def end(self):
        rank_wrapper.kill_all(self.run_id, os.getpid())
        scratch_folder.remove(self.scratch)
