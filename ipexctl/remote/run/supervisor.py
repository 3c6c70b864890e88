"""The supervisor of a run on one host: the socket for ranks and mpirun, the processes, the logs.

A process of its own, in a session of its own, which lives as long as the run; guardian.py starts
it. Whatever ends the run (an order, the agent gone, no word from the controller for `lease`
seconds), it leaves no process of the run behind and says what it found.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure
from ipexctl.remote.own_process import no_core_dump, start_thread
from ipexctl.remote.run import (
    control,
    health_sampler,
    journal,
    mpirun_bootstrap,
    rank_wrapper,
    run_folders,
    traffic,
)

KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
# of ranks alone, as the address of a proxy can hold a password: mpirun's environment may travel
KEPT_OF_RANKS = (
    PROXIES
    + tuple(name.upper() for name in PROXIES)
    + ("HF_HOME", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
)
LAST_WORDS = 8192  # bytes of a rank's output that the journal keeps
SSH_FAILED = 255  # ssh could not log in, or what it ran was killed
HESITATION = 0.5  # what ends in a row is told of in that row, also by several hosts


def own(names):
    """Those of this host's variables that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def run(link, asked, scratch):
    """Until the run is over here. Returns the last word to the agent."""
    supervisor = Supervisor(link, asked, scratch)
    try:
        return {"over": supervisor.serve()}
    finally:
        supervisor.end("it failed")


class Supervisor:
    def __init__(self, link, asked, scratch):
        self.link = link
        self.programs = {"rank.py": rank_wrapper, "bootstrap.py": mpirun_bootstrap}
        self.run_id = run_folders.run_id(asked)
        top = root_folder.checked(asked["root"])
        self.dir = root_folder.subfolder(top, "runs", self.run_id)
        run_folders.hold(self.dir)
        self.logs = root_folder.subfolder(self.dir, "logs")
        self.scratch = scratch
        self.plan = asked
        self.began = time.monotonic()
        self.journal = None
        self.writing = threading.Lock()
        self.lease = asked["lease"]
        self.last_heard = time.monotonic()
        self.lock = threading.Lock()
        self.ranks = {}  # rank -> connection
        self.running = set()  # ranks whose end has not been told yet
        self.launches = {}  # key -> connection of a bootstrap program
        self.children = {}  # key -> Popen
        self.killed = set()  # keys of those that were killed as ordered
        self.sampler = health_sampler.Sampler(self)
        self.traffic = traffic.Traffic(self, asked["store_port"])
        self.killed_for_memory = health_sampler.oom_kills()
        self.over = False
        self.survivors = None

    # -- life --

    def serve(self):
        if self.plan["secret"]:  # also of MPI's programs and the ranks
            no_core_dump()
        rank_wrapper.set_subreaper()  # whatever loses its parent here stays below us, and is found
        try:
            self.journal = journal.begin(self.dir, self.plan["host"])
            listener = self.listen()
            self.write_programs()
            control.serve(self.run_id, self.plan["host"], self.answer)
        except OSError as e:
            raise cannot_write(e, self.dir) from None
        about = {"version": journal.VERSION, "about": self.plan["about"], "began": time.time()}
        self.note(about, sync=True)
        try:
            start_thread(self.accept, listener)
            start_thread(self.watch_lease)
            start_thread(self.sampler.loop, lambda: self.over)
            start_thread(self.traffic.loop, lambda: self.over)
            self.emit({"event": "ready", "env_file": self.env_file(), "pid": os.getpid()})
            return {"survivors": len(self.end(self.orders())), "logs": self.logs}
        finally:
            listener.close()

    def orders(self):
        """Until the run is to end. Returns why it is."""
        while True:
            frame = self.link.read()
            if frame is None:
                return "the connection to ipexctl ended"
            if "stop" in frame[0]:
                return "ended"
            self.last_heard = time.monotonic()
            header = frame[0]
            if "ping" in header:
                self.emit({"event": "pong"})
            elif "spawn" in header:
                self.spawn(header["spawn"], header["argv"])
            elif "noted" in header:
                self.tell(self.ranks.get(header["noted"]), {"noted": True, "ok": header.get("ok")})
            elif "signal" in header:
                self.note({"asked": header.get("why", "")})
                self.signal_ranks(header["signal"])
            elif "kill" in header:
                self.kill(header["kill"])
            elif "exited" in header:
                self.tell(self.launches.get(header["exited"]), {"exit": header["code"]})
            elif "ssh" in header:
                self.tell(self.launches.get(header["ssh"]), {"run": header["argv"]})
            elif "refused" in header:
                self.tell(self.launches.get(header["refused"]), {"refused": header["why"]})

    def note(self, record, sync=False, last=False):
        """In the journal, with the seconds since the run began here."""
        with self.writing:
            if self.journal is None:
                return
            self.journal.add(dict(record, at=round(time.monotonic() - self.began, 3)), sync)
            if last:
                self.journal.trim()

    def answer(self, message):
        """To a question or an order from this host: control.py."""
        if "stop" in message:
            self.emit({"event": "stop", "by": message["stop"], "seconds": message["seconds"]})
        return {"alive": True}

    def emit(self, event):
        try:
            self.link.write(event)
        except (OSError, ValueError):
            pass  # the agent has gone: `orders` sees it, too

    def tell(self, link, message):
        if link is not None:
            try:
                rank_wrapper.send(link, message)
            except OSError:
                pass  # it has gone by itself

    def watch_lease(self):
        while not self.over:
            silence = time.monotonic() - self.last_heard
            if silence > self.lease:
                # told first, as what follows has this cause; in a thread, as nobody may read it
                start_thread(self.emit, {"event": "lease", "seconds": silence})
                time.sleep(0.2)
                self.end("no word from ipexctl for %.0f s" % silence)
                os._exit(0)
            time.sleep(0.5)

    def end(self, why):
        """Kills what is left of the run, looks again, and tells who would not go."""
        with self.lock:
            if self.survivors is None:
                self.over = True
                self.survivors = rank_wrapper.kill_all(self.run_id, os.getpid())
                shutil.rmtree(self.scratch, ignore_errors=True)
                record = {"over": why, "survivors": len(self.survivors)}
                self.note(record, sync=True, last=True)
            return self.survivors

    # -- the socket --

    def listen(self):
        self.socket_path = os.path.join(self.scratch, "socket")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(self.socket_path)
        os.chmod(self.socket_path, stat.S_IRUSR | stat.S_IWUSR)
        listener.listen(512)
        return listener

    def accept(self, listener):
        threading.stack_size(256 * 1024)
        while not self.over:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            start_thread(self.connection, link)

    def connection(self, link):
        reader = rank_wrapper.Lines(link)
        hello = reader.next() or {}
        if hello.get("hello") == "rank":
            self.rank(link, reader, hello)
        elif hello.get("hello") == "launch":
            self.launch(link, reader, hello)
        link.close()

    # -- ranks --

    def rank(self, link, reader, hello):
        number = hello["rank"]
        orders = self.rank_orders(link, number, hello["local"])
        if "refused" not in orders:
            try:
                self.log_begins(number, orders["log"])
            except OSError as e:
                orders = {"refused": "cannot make the log of rank %s: %s" % (number, e)}
        if "refused" in orders:
            self.emit({"event": "rank", "rank": number, "refused": orders["refused"]})
            self.tell(link, orders)
            return
        self.running.add(number)
        self.tell(link, orders)
        ended, pid = self.until_end(number, reader)
        if not ended["lost"]:
            self.log_ends(number)
        ended["hints"] = [] if ended["code"] == 0 else self.hints(pid)
        tail = run_folders.end_of_log(self.dir, number, LAST_WORDS)
        self.note({"ended": number, "how": ended, "tail": tail}, sync=True)
        self.emit({"event": "rank", "rank": number, "ended": ended})
        self.running.discard(number)
        reader.next()  # it stays until the controller has noted its end
        with self.lock:
            self.ranks.pop(number, None)

    def until_end(self, number, reader):
        """How it ended, and the process that it was."""
        pid = None
        while True:
            message = reader.next()
            if message is None:  # its wrapper is gone without a word
                start_thread(self.forget, number)  # its sockets may be open as long as its process
                time.sleep(HESITATION)  # if MPI was killed and took it along: that first
                return {"code": None, "signal": None, "lost": True}, pid
            if "started" in message:
                pid = message["pid"]
                self.sampler.add(number, pid)
                self.traffic.add(number, pid)
                where = message.get("where")
                self.note({"started": number})
                self.emit({"event": "rank", "rank": number, "started": pid, "where": where})
            elif "ended" in message:
                self.forget(number)
                ended = {key: message.get(key) for key in ("code", "signal", "usage")}
                return dict(ended, lost=False), pid

    def forget(self, number):
        self.sampler.remove(number)
        self.traffic.remove(number)

    def hints(self, pid):
        """What this host knows about the end of a rank, that the rank could not say."""
        memory = health_sampler.oom_hint(self.killed_for_memory, pid)
        found = [memory] if memory else []
        try:
            disk = os.statvfs(self.logs)
            if disk.f_bavail * disk.f_frsize < 64 * 1024:
                found.append("disk-full")
        except OSError:
            pass
        return found

    def rank_orders(self, link, number, local):
        places = {p["rank"]: p for p in self.plan["ranks"]}
        if number not in places:
            refused = "mpirun started rank %s here, the plan has %s" % (number, sorted(places))
            return {"refused": refused}
        place = places[number]
        if local is not None and local != place["local_rank"]:
            refused = "rank %d is local rank %d here, not %d" % (number, local, place["local_rank"])
            return {"refused": refused}
        with self.lock:
            if number in self.ranks:
                return {"refused": "rank %d is here twice" % number}
            self.ranks[number] = link
        env = own(KEPT_OF_RANKS)
        env["TORCHELASTIC_ERROR_FILE"] = os.path.join(self.logs, "rank%05d.error.json" % number)
        env.update(self.base_env())
        env.update(place["env"])
        log = run_folders.log_of(self.dir, number)
        return {
            "env": env,
            "argv": place["argv"],
            "cwd": self.plan["cwd"],
            "log": log,
            "cpus": place["cpus"],
            "node": place.get("node"),
            "flags": self.plan.get("flags"),
        }

    def signal_ranks(self, number):
        with self.lock:
            links = list(self.ranks.values())
        for link in links:
            self.tell(link, {"signal": number})

    # -- mpirun and its daemons --

    def launch(self, link, reader, hello):
        """mpirun on this host wants COMMAND on HOST: only the controller can have that done."""
        with self.lock:
            key = len(self.launches) + 1
            self.launches[key] = link
        self.emit({"event": "launch", "key": key, "argv": hello["argv"]})
        ended = reader.next()  # returns when the program is gone, be it done or killed
        if ended is not None:  # or when ssh, which it runs, has failed
            if (
                ended["code"] != SSH_FAILED
            ):  # MPI's daemon there gave up: maybe as a rank was killed
                time.sleep(HESITATION)
            self.emit({"event": "exited", "key": "daemon%d" % key, "code": ended["code"]})
            reader.next()
        self.emit({"event": "unlaunch", "key": key})

    def base_env(self):
        env = own(KEPT)
        env.update(self.plan["env"])
        env[rank_wrapper.RUN_MARK] = self.run_id
        return env

    def program_env(self):
        """For mpirun, its daemons and the wrappers of ranks. Nothing in it is secret."""
        env = self.base_env()
        env["IPEXCTL_SOCKET"] = self.socket_path
        env["IPEXCTL_RUN_DIR"] = self.dir
        env["IPEXCTL_PYTHON"] = sys.executable
        env["TMPDIR"] = self.scratch  # Open MPI's files there outlive it when it is killed
        return env

    def spawn(self, key, argv):
        if self.over:
            return
        env = self.program_env()
        out = os.path.join(self.logs, "%s.log" % re.sub(r"[^a-z0-9]", "-", str(key)))
        parent = os.getpid()
        try:
            with open(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
                child = subprocess.Popen(
                    argv,
                    env=env,
                    cwd=self.dir,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=lambda: rank_wrapper.die_with_parent(parent),
                    start_new_session=True,
                )
        except (OSError, ValueError, subprocess.SubprocessError) as e:
            self.emit({"event": "exited", "key": key, "code": 127, "error": str(e)})
            return
        self.children[key] = child
        self.log_begins(key, out)
        self.wait(key, child)

    def wait(self, key, child):
        # PDEATHSIG follows the thread that forked, so this thread (the one of the orders) must live
        # as long as the child; the waiting is done elsewhere.
        def waiter():
            code = child.wait()
            self.log_ends(key)
            if self.running and not by_signal(code):
                # it gave up as a rank was killed: that first; with 0, it was asked to
                time.sleep(HESITATION if code else 2 * HESITATION)
            asked = key in self.killed
            self.emit({"event": "exited", "key": key, "code": code, "asked": asked})

        start_thread(waiter)

    def kill(self, key):
        child = self.children.get(key)
        if child is not None and alive(child.pid):
            self.killed.add(key)
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except OSError:
                pass

    # -- files --

    def log_begins(self, key, path):
        """The agent reads it from here on."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        self.emit({"event": "log-begins", "key": key, "path": path})

    def log_ends(self, key):
        self.emit({"event": "log-ends", "key": key})

    def write_programs(self):
        for name, module in self.programs.items():
            write(os.path.join(self.dir, name), source_of(module), 0o600)
        # mpirun wants one program name: a shell script finds the interpreter in the environment
        text = '#!/bin/sh\nexec "$IPEXCTL_PYTHON" -IS "$IPEXCTL_RUN_DIR/bootstrap.py" "$@"\n'
        write(os.path.join(self.dir, "bootstrap"), text, 0o700)
        write(os.path.join(self.dir, "hosts"), self.plan.get("machinefile", ""), 0o600)
        if self.plan["launcher"] == "ssh":  # what comes in by ssh has no environment from us
            text = "".join(
                "export %s=%s\n" % (name, shlex.quote(value))
                for name, value in sorted(self.program_env().items())
            )
            write(self.env_file(), text, 0o600)

    def env_file(self):
        return os.path.join(self.scratch, "env.sh")


def cannot_write(error, folder):
    where = os.path.dirname(error.filename or "") or folder
    return Failure("cannot write to %s: %s" % (where, error.strerror or error))


def source_of(module):
    return module.__loader__.get_source(module.__name__)


def write(path, text, mode):
    """Whole at any time: hosts with one home write the same texts to the same places."""
    part = "%s.%s" % (path, os.urandom(8).hex())
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as f:
        f.write(text)
    os.rename(part, path)


def scratch_folder():
    """Of this host alone, be its home shared or not; a socket's path has 107 bytes at most."""
    usual = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="ipexctl-", dir=usual if len(usual) < 80 else "/tmp")


def alive(pid):
    """Whether our child still runs; another thread waits for it, and may not have woken up yet."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except OSError:
        return False


def by_signal(code):
    """Was a program of MPI killed? A shell around it says 128 + the signal."""
    return code < 0 or 128 < code < 128 + 65
