"""Round trips per host: ipexctl doctor beside the threaded Paramiko loop, 25 ms away each way.

    python benchmarks/latency_proxy.py [--hosts 8] [--delay 25] [--rounds 3]

Needs root (for the lab). Between us and every host stands a small TCP proxy that holds all
bytes back for the delay, in both directions, and keeps their order. With few hosts and a long delay
the time is round trips; the proxy also counts them: each time bytes come to it from our side after
bytes came from the host's side, a round trip has begun. What both tools run on the hosts is equal
in size: Python with the same imports. `wall` is the whole command, its start included. `by wall` is
what four times the delay costs, in round trips: what was waited for one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import bytecode

from ipexctl.lab import Lab, LabSpec

HERE = Path(__file__).parent
IMPORTS = "ast,base64,json,os,queue,socket,struct,sys,threading,time,types,zlib"
REMOTE = f"python3 -I -S -c 'import {IMPORTS};print(open(\"/proc/cpuinfo\").read())'"


@dataclass
class Talk:
    """One connection: how often the turn went from the host to us and back."""

    turns: int = 0
    last: str = ""

    def heard(self, side: str) -> None:
        if side == "client" and self.last != "client":
            self.turns += 1
        self.last = side


@dataclass
class Proxy:
    """Listens for every host; its event loop has a thread of its own."""

    delay: float
    ports: dict[str, int] = field(default_factory=dict)
    talks: list[Talk] = field(default_factory=list)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def start(self, addresses: dict[str, str]) -> None:
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        for name, address in addresses.items():
            done = asyncio.run_coroutine_threadsafe(self._listen(address), self.loop)
            self.ports[name] = done.result(10)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def _listen(self, address: str) -> int:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = asyncio.open_connection(address, 22)
            host_reader, host_writer = await there
            self.talks.append(told := Talk())
            await asyncio.gather(
                self._pass(reader, host_writer, told, "client"),
                self._pass(host_reader, writer, told, "host"),
                return_exceptions=True,
            )

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        talk: Talk,
        side: str,
    ) -> None:
        """Each piece leaves `delay` after it came; pieces do not wait for one another."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - self.loop.time()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            writer.close()

        sender = self.loop.create_task(send())
        try:
            while data := await reader.read(1 << 16):
                talk.heard(side)
                queue.put_nowait((self.loop.time() + self.delay, data))
        except OSError:
            pass
        queue.put_nowait((self.loop.time() + self.delay, b""))
        await sender


def through(lab: Lab, proxy: Proxy, work: Path) -> tuple[str, str]:
    """An ssh_config and a known_hosts (without patterns) that lead through the proxy."""
    lines = [line.split() for line in Path(lab.known_hosts).read_text().splitlines()]
    keys = {name: words[1:3] for words in lines for name in words[0].split(",")}
    known = work / "known_hosts"
    config = work / "ssh_config"
    found = {port: keys[lab.hosts[name].address] for name, port in proxy.ports.items()}
    known.write_text("".join(f"[127.0.0.1]:{p} {' '.join(key)}\n" for p, key in found.items()))
    config.write_text(
        "".join(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User {lab.user}\n"
            f"  IdentityFile {lab.identity}\n  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n"
            for name, port in proxy.ports.items()
        )
    )
    return str(config), str(known)


def measure(argv: tuple[str, ...], proxy: Proxy) -> tuple[float, float, int]:
    """Wall seconds, round trips per host, exit code."""
    proxy.talks.clear()
    began = time.monotonic()
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=HERE.parent
    )
    wall = time.monotonic() - began
    if done.returncode:
        print(done.stdout[-200:], done.stderr[-200:], file=sys.stderr)
    time.sleep(4 * proxy.delay + 0.2)  # goodbyes still on their way
    trips = statistics.median(t.turns for t in proxy.talks) if proxy.talks else 0.0
    return wall, trips, done.returncode


def tools(lab: Lab, proxy: Proxy, work: Path) -> dict[str, tuple[str, ...]]:
    config, known = through(lab, proxy, work)
    hostfile = work / "hostfile"
    hostfile.write_text("".join(f"{name}\n" for name in proxy.ports))
    doctor = (sys.executable, "-m", "ipexctl", "doctor", "-f", str(hostfile), "-F", config)
    loop = (sys.executable, str(HERE / "paramiko_loop.py"), str(hostfile), config, known, REMOTE)
    return {"ipexctl doctor": (*doctor, "--json"), "threaded paramiko": loop}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--delay", type=float, default=25.0, help="milliseconds, each way")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    bytecode.make()
    with tempfile.TemporaryDirectory(prefix="ipexctl-bench-") as folder:
        work = Path(folder)
        spec = LabSpec.plain(args.hosts, name="latency")
        lab = Lab.up(spec, owner=os.getpid(), root=work / "labs")
        near, far = Proxy(args.delay / 1000), Proxy(4 * args.delay / 1000)
        try:
            for proxy in (near, far):
                proxy.start({name: host.address for name, host in lab.hosts.items()})
            report(lab, near, far, work, args.rounds)
        finally:
            near.stop()
            far.stop()
            lab.down()


def report(lab: Lab, near: Proxy, far: Proxy, work: Path, rounds: int) -> None:
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for round_ in range(rounds + 1):  # the first warms caches and is not counted
        (work / "near").mkdir(exist_ok=True)
        (work / "far").mkdir(exist_ok=True)
        close, distant = tools(lab, near, work / "near"), tools(lab, far, work / "far")
        for name in close:
            fast, trips, _ = measure(close[name], near)
            slow, _, _ = measure(distant[name], far)
            if round_:
                waited = (slow - fast) / (2 * (far.delay - near.delay))
                rows.setdefault(name, []).append((fast, waited, trips))
    print(f"{len(lab.hosts)} hosts, {near.delay * 1000:g} ms each way, {rounds} rounds\n")
    print("| tool | wall s | round trips by wall | turns on the wire |")
    print("|---|---|---|---|")
    for name, samples in rows.items():
        wall, times, trips = (statistics.median(column) for column in zip(*samples, strict=True))
        print(f"| {name} | {wall:.2f} | {times:.1f} | {trips:.0f} |")


if __name__ == "__main__":
    main()
