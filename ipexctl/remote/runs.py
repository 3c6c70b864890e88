"""A run on one host: the folder, the socket for ranks and mpirun, the processes, the logs.

`op_host` lives as long as the run. Whatever ends it (an order, the controller gone, no word from it
for `lease` seconds), it leaves no process of the run behind and says what it found.
"""

import glob
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

Failure = globals()["Failure"]  # these two are put there by remote/main.py
blobs = globals()["agent"].module("blobs")

KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
RUN_ID = re.compile(r"^[a-z0-9-]{4,64}$")
CHUNK = 64 * 1024


def run_id(h):
    if not RUN_ID.match(h["run_id"]):
        raise Failure("%r is not a run id" % h["run_id"])
    return h["run_id"]


def op_prepare(call, h):
    """What this host would run with: the environment's prefix and versions, a free port."""
    root = blobs.root_folder(h["root"])
    prefix = os.path.realpath(os.path.join(root, "current"))
    python = os.path.join(prefix, "bin", "python")
    if not os.access(python, os.X_OK):
        raise Failure(
            "no environment is installed in %s" % root,
            hint="ipexctl install",
            slug="not-installed",
        )
    return {
        "prefix": prefix,
        "mpirun": os.access(os.path.join(prefix, "bin", "mpirun"), os.X_OK),
        "packages": packages(prefix),
        "port": free_port(h.get("ports") or [29500, 29600]),
        "path": os.environ.get("PATH", os.defpath),
    }


def packages(prefix):
    found = {}
    for path in glob.glob(os.path.join(prefix, "lib", "python3*", "site-packages", "*.dist-info")):
        name, _, version = os.path.basename(path)[: -len(".dist-info")].partition("-")
        found[name.lower().replace("_", "-")] = version
    return found


def free_port(ports):
    for port in range(ports[0], ports[1] + 1):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            try:
                s.bind(("", port))
            except OSError:
                continue
            return port
    raise Failure("no free port between %d and %d" % tuple(ports))


def op_snapshot(call, h):
    """The user's files for this run, copied out of the blob store. Paths can't leave the folder."""
    root = blobs.root_folder(h["root"])
    work = blobs.folder(root, "runs", run_id(h), "work")
    total = 0
    for entry in h["files"]:
        path = inside(work, entry["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if "link" in entry:
            inside(work, os.path.join(os.path.dirname(entry["path"]), entry["link"]))
            os.symlink(entry["link"], path)
            continue
        total += copy(blobs.path_of(root, entry["sha256"]), path, entry["mode"])
    return {"work": work, "bytes": total}


def inside(folder, path):
    full = os.path.normpath(os.path.join(folder, path))
    if os.path.isabs(path) or not full.startswith(folder + os.sep):
        raise Failure("the path %r leaves the run's folder" % path)
    return full


def copy(source, target, mode):
    import shutil

    shutil.copyfile(source, target)
    os.chmod(target, 0o755 if mode & 0o100 else 0o644)
    return os.path.getsize(target)


def op_host(call, h):
    run = HostRun(call, h)
    call.agent.at_end.append(run.end)
    call.agent.heard = run.hear
    try:
        return run.serve()
    finally:
        run.end()
        call.agent.heard = None


class HostRun:
    def __init__(self, call, h):
        self.call = call
        self.helpers = call.agent.module("rank")
        self.run_id = run_id(h)
        self.dir = blobs.folder(blobs.root_folder(h["root"]), "runs", self.run_id)
        self.logs = blobs.folder(self.dir, "logs")
        self.plan = h
        self.lease = h["lease"]
        self.last_heard = time.monotonic()
        self.lock = threading.Lock()
        self.ranks = {}  # rank -> connection
        self.launches = {}  # key -> connection of a bootstrap program
        self.children = {}  # key -> Popen
        self.follower = Follower(call, self.lock)
        self.over = False
        self.swept = None

    # -- life --

    def serve(self):
        self.write_programs()
        listener, folder = self.listen()
        try:
            for target in (self.accept, self.watch_lease, self.follower.loop):
                args = (listener,) if target == self.accept else ()
                start_thread(target, *args)
            self.call.emit({"event": "ready"})
            self.orders()
            left = self.end()
            self.follower.last()
            return {"survivors": left, "logs": self.logs}
        finally:
            listener.close()
            os.unlink(self.socket_path)
            if folder:
                os.rmdir(folder)

    def orders(self):
        while True:
            frame = self.call.recv()
            if frame is None:
                return
            header = frame[0]
            if "ping" in header:
                self.call.emit({"event": "pong"})
            elif "spawn" in header:
                self.spawn(header["spawn"], header["argv"])
            elif "signal" in header:
                self.signal_ranks(header["signal"])
            elif "kill" in header:
                self.kill(header["kill"])
            elif "exited" in header:
                self.answer_launch(header["exited"], {"exit": header["code"]})
            elif "refused" in header:
                self.answer_launch(header["refused"], {"refused": header["why"]})
            elif "stop" in header:
                return

    def hear(self):
        self.last_heard = time.monotonic()

    def watch_lease(self):
        while not self.over:
            if time.monotonic() - self.last_heard > self.lease:
                self.end()
                os._exit(0)
            time.sleep(0.5)

    def end(self):
        """Kills what is left of the run, looks again, and says who would not go."""
        with self.lock:
            if self.swept is None:
                self.over = True
                self.swept = self.helpers.kill_marked(self.run_id)
            return self.swept

    # -- the socket --

    def listen(self):
        folder = None
        self.socket_path = os.path.join(self.dir, "socket")
        if len(self.socket_path) > 100:  # the kernel's limit is 107 bytes
            folder = tempfile.mkdtemp(prefix="ipexctl-")
            self.socket_path = os.path.join(folder, "socket")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(self.socket_path)
        os.chmod(self.socket_path, stat.S_IRUSR | stat.S_IWUSR)
        listener.listen(512)
        return listener, folder

    def accept(self, listener):
        threading.stack_size(256 * 1024)
        while not self.over:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            start_thread(self.connection, link)

    def connection(self, link):
        reader = self.helpers.Lines(link)
        hello = reader.next() or {}
        if hello.get("hello") == "rank":
            self.rank(link, reader, hello)
        elif hello.get("hello") == "launch":
            self.launch(link, reader, hello)
        link.close()

    # -- ranks --

    def rank(self, link, reader, hello):
        number = hello["rank"]
        orders = self.rank_orders(number, hello["local"])
        self.helpers.send(link, orders)
        if "refused" in orders:
            self.call.emit({"event": "rank", "rank": number, "refused": orders["refused"]})
            return
        self.follower.add(number, orders["log"])
        with self.lock:
            self.ranks[number] = link
        ended = self.until_end(number, reader)
        with self.lock:
            self.ranks.pop(number, None)
        self.follower.finish(number)
        self.call.emit({"event": "rank", "rank": number, "ended": ended})
        try:
            self.helpers.send(link, {"noted": True})
        except OSError:
            pass

    def until_end(self, number, reader):
        while True:
            message = reader.next()
            if message is None:  # its wrapper is gone without a word
                return {"code": None, "signal": None, "lost": True}
            if "started" in message:
                self.call.emit({"event": "rank", "rank": number, "started": message["pid"]})
            elif "ended" in message:
                return {"code": message["code"], "signal": message["signal"], "lost": False}

    def rank_orders(self, number, local):
        places = {p["rank"]: p for p in self.plan["ranks"]}
        if number not in places:
            refused = "mpirun started rank %s here, the plan has %s" % (number, sorted(places))
            return {"refused": refused}
        place = places[number]
        if local is not None and local != place["local_rank"]:
            refused = "rank %d is local rank %d here, not %d" % (number, local, place["local_rank"])
            return {"refused": refused}
        env = self.base_env()
        env.update(place["env"])
        log = os.path.join(self.logs, "rank%05d.log" % number)
        return {
            "env": env,
            "argv": place["argv"],
            "cwd": self.plan["cwd"],
            "log": log,
            "cpus": place["cpus"],
        }

    def signal_ranks(self, number):
        with self.lock:
            links = list(self.ranks.values())
        for link in links:
            try:
                self.helpers.send(link, {"signal": number})
            except OSError:
                pass

    # -- mpirun and its daemons --

    def launch(self, link, reader, hello):
        """mpirun on this host wants COMMAND on HOST: only the controller can have that done."""
        with self.lock:
            key = len(self.launches) + 1
            self.launches[key] = link
        self.call.emit({"event": "launch", "key": key, "argv": hello["argv"]})
        reader.next()  # returns when the program is gone, be it done or killed
        self.call.emit({"event": "unlaunch", "key": key})

    def answer_launch(self, key, message):
        with self.lock:
            link = self.launches.get(key)
        if link is not None:
            try:
                self.helpers.send(link, message)
            except OSError:
                pass

    def base_env(self):
        env = {k: os.environ[k] for k in KEPT if k in os.environ}
        env.update(self.plan["env"])
        env[self.helpers.RUN_MARK] = self.run_id
        return env

    def spawn(self, key, argv):
        if self.over:
            return
        env = self.base_env()
        env["IPEXCTL_SOCKET"] = self.socket_path
        env["IPEXCTL_RUN_DIR"] = self.dir
        env["IPEXCTL_PYTHON"] = sys.executable
        out = os.path.join(self.logs, "%s.log" % re.sub(r"[^a-z0-9]", "-", str(key)))
        parent = os.getpid()
        try:
            with open(out, "ab") as log:
                child = subprocess.Popen(
                    argv,
                    env=env,
                    cwd=self.dir,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=lambda: self.helpers.die_with_parent(parent),
                    start_new_session=True,
                )
        except OSError as e:
            self.call.emit({"event": "exited", "key": key, "code": 127, "error": str(e)})
            return
        self.children[key] = child
        self.follower.add(key, out)
        self.wait(key, child)

    def wait(self, key, child):
        # PDEATHSIG follows the thread that forked, so this thread (the one of the orders) must live
        # as long as the child; the waiting is done elsewhere.
        def waiter():
            code = child.wait()
            self.follower.finish(key)
            self.call.emit({"event": "exited", "key": key, "code": code})

        start_thread(waiter)

    def kill(self, key):
        child = self.children.get(key)
        if child is not None and child.poll() is None:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except OSError:
                pass

    # -- files --

    def write_programs(self):
        for name in ("rank", "bootstrap"):
            write(os.path.join(self.dir, name + ".py"), self.call.agent.sources[name], 0o600)
        # mpirun wants one program name: a shell script finds the interpreter in the environment
        text = '#!/bin/sh\nexec "$IPEXCTL_PYTHON" -IS "$IPEXCTL_RUN_DIR/bootstrap.py" "$@"\n'
        write(os.path.join(self.dir, "bootstrap"), text, 0o700)
        write(os.path.join(self.dir, "hosts"), self.plan.get("machinefile", ""), 0o600)


def write(path, text, mode):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as f:
        f.write(text)


def start_thread(target, *args):
    thread = threading.Thread(target=target, args=args)
    thread.daemon = True
    thread.start()


class Follower:
    """Reads log files as they grow and sends what is new, by offset: no line torn, none lost."""

    def __init__(self, call, lock):
        self.call = call
        self.guard = threading.Lock()
        self.files = {}  # key -> [path, offset, finished]
        self.over = False

    def add(self, key, path):
        with self.guard:
            self.files.setdefault(key, [path, 0, False])

    def finish(self, key):
        """The writer has ended: all it wrote goes out before anybody is told that it ended."""
        with self.guard:
            entry = self.files.get(key)
            if entry:
                self.drain(key, entry)
                entry[2] = True

    def loop(self):
        while not self.over:
            with self.guard:
                for key, entry in self.files.items():
                    if not entry[2]:
                        self.drain(key, entry)
            time.sleep(0.08)

    def last(self):
        self.over = True
        with self.guard:
            for key, entry in self.files.items():
                self.drain(key, entry)

    def drain(self, key, entry):
        try:
            if os.path.getsize(entry[0]) == entry[1]:
                return
            with open(entry[0], "rb") as f:
                f.seek(entry[1])
                while True:
                    data = f.read(CHUNK)
                    if not data:
                        return
                    self.call.emit({"event": "log", "key": key, "at": entry[1]}, data)
                    entry[1] += len(data)
        except OSError:
            return
