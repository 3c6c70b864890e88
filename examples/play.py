"""What a play cannot say, in Python: steps whose arguments come from what the hosts answer.

    python examples/play.py [HOSTFILE [SSH_CONFIG]]

Without a hostfile it runs on this machine. docs/python.md explains it.
"""

from __future__ import annotations

import sys

from ipexctl.api import Cluster, Code, File, Sh, StepFailed


def main() -> None:
    hostfile, ssh_config = (*sys.argv[1:], None, None)[:2]
    with Cluster(hostfile=hostfile, ssh_config=ssh_config, say=say) as cluster:
        facts = cluster.facts()
        threads = {name: len(found.cpu.cpus) for name, found in facts.items()}
        slowest = min(threads, key=lambda name: threads[name])
        print(f"{len(facts)} hosts, the smallest is {slowest} with {threads[slowest]} CPUs")

        for name, count in threads.items():  # other arguments on each host
            content = f"threads={count}\n"
            done = cluster.do(File("~/play-example.conf", content=content), on=name)
            print(f"{name}: {done[name].state.value}")
        try:
            cluster.do(Sh(Code("cat ~/play-example.conf; uname -r")))
        except StepFailed as e:
            sys.exit(f"{e.what}\n{e.why}")
        cluster.do(File("~/play-example.conf", state="absent"))

        if hostfile:
            for name, connection in cluster.connections().items():  # fabric.Connection
                print(f"{name}: {connection.run('hostname', hide=True).stdout.strip()}")


def say(host: str, line: str) -> None:
    print(f"{host} | {line}" if host else line)


main()
