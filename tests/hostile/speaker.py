"""A host that speaks our protocol and does what it likes with it; and a run with such hosts."""

from __future__ import annotations

import sys
import time

from ipexctl.base.option import Seconds
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.agent import Agent, Hello
from ipexctl.machines.wire.frames import Decoder
from ipexctl.machines.wire.transport import PipeChannel
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.watch.host_link import HostLinks, WatchedRun
from ipexctl.run.watch.run_output import RunOutput
from ipexctl.run.watch.run_watchers import Interrupts, Painter
from ipexctl.run.watch.session import Session
from ipexctl.run.watch.start_request import Orders
from tests.made import facts, host, prepared

# Speaks frames as remote/main.py does. `say(header, body)` says anything, `tell(event, host)` what
# a host of ours says; `wait_for` answers pings.
SPEAKER = """
import json, struct, sys, time
from ipexctl.common.copy_messages import *
from ipexctl.common.exchange_report import *
from ipexctl.common.run_events import *
from ipexctl.common.supervisor_messages import PartReport
from ipexctl.common.watch_orders import *
head = struct.Struct('>II')
def read():
    size, body = head.unpack(sys.stdin.buffer.read(8))
    header = json.loads(sys.stdin.buffer.read(size))
    sys.stdin.buffer.read(body)
    return header
def raw(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
def say(header, body=b''):
    data = json.dumps({'id': number, **header}).encode()
    raw(head.pack(len(data), len(body)) + data + body)
def tell(event, host='', body=b''):
    say(Fact(event, host).document(), body)
def read_order():
    order = WatchOrder.read(read())
    if isinstance(order, Ping):
        tell(Pong())
    return order
def wait_for(kind):
    while not isinstance(read_order(), kind):
        pass
def last_word():
    tell(Swept(0))
    say({'done': PartReport(0, '/logs').document()})
    time.sleep(60)
def be_hub():
    asked = False
    while True:
        order = read_order()
        if isinstance(order, Doubt):
            tell(HostLost(order.why), order.host)
            tell(OVER)
        elif isinstance(order, Interrupt) and not asked:
            asked = True
            tell(EndAsked(order.by, order.seconds))
        elif isinstance(order, Interrupt):
            tell(OVER)
        elif isinstance(order, EndPart):
            last_word()
OVER = Over('ended')
asked = read()
while 'sources' in asked:  # our own program comes first
    asked = read()
number = asked['id']
"""
READY = "tell(Ready(1))\n"
END = "be_hub()\n"
GOOD = READY + END  # as the first host


class Silent:
    lossy = False

    def note(self, text): ...
    def planned(self, run_id, plan): ...
    def lines(self, host, rank, texts): ...
    def bar(self, host, rank, text): ...
    def dropped(self, lines): ...
    def tick(self, tally): ...
    def result(self, result): ...
    def close(self): ...


class Stuck(Silent):
    """A terminal that Ctrl-S has stopped."""

    def lines(self, host, rank, texts):
        time.sleep(3600)


def drive(folder, texts, *, view=None, host_timeout=5.0, interrupts=None):
    """A run on hosts n0, n1, ... that say what these texts have them say."""
    nodes = [PlannedHost(host(f"n{i}"), facts(f"n{i}"), prepared()) for i in range(len(texts))]
    agents = {}
    for node, text in zip(nodes, texts, strict=True):
        script = folder / f"{node.host.name}.py"
        script.write_text(SPEAKER + text)
        channel = PipeChannel((sys.executable, str(script)))
        agents[node.host.name] = Agent(node.host, channel, Hello("python"), Decoder())
    made = make_launch_plan(nodes, RunRequest(("t.py",), len(texts)), "made-run")
    painter = Painter(view or Silent())
    options = RunOptions("t.py", root="/r", host_timeout=Seconds(host_timeout))
    watched = WatchedRun(made, "made-run", options, "n0")
    links, output = HostLinks(watched), RunOutput(watched, painter)
    session = Session(watched, links, output, interrupts or Interrupts())
    orders = Orders(made, "made-run", options)
    try:
        return session.start_run(orders, {name: (agent, "/w") for name, agent in agents.items()})
    finally:
        for agent in agents.values():
            agent.channel._process.kill()
            agent.close()
