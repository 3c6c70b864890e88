"""The connections between the keepers of a run: a voter listens for hosts that are after it in the
list, and each keeper connects to the voters before its own host."""

from functools import partial

from ipexctl.common.keeper_messages import KeeperMessage
from ipexctl.common.restart_plan import RestartPlan
from ipexctl.remote.connection import hub_link

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable


class KeeperLinks:
    """`deliver(name, document)` gets the messages of others; it is called in threads of links."""

    def __init__(
        self,
        name: str,
        plan: RestartPlan,
        keys: "dict[str, str]",
        deliver: "Callable[[str, object], object]",
    ) -> None:
        voters = [place[0] for place in plan.places]
        earlier = voters[: voters.index(name)] if name in voters else voters
        self.listener = None  # type: hub_link.HubListener | None
        self.spokes = {}  # type: dict[str, hub_link.Spoke]
        later = [host for host in plan.hosts if host not in earlier and host != name]
        if name in voters and later:
            _, address, port = plan.places[voters.index(name)]
            self.listener = hub_link.HubListener(later, keys, deliver, renews=True)
            self.listener.listen(address, (port, port))
        for voter, address, port in plan.places[: len(earlier)]:
            spoke = hub_link.Spoke(name, voter, keys, partial(deliver, voter), renews=True)
            spoke.connect(address, port)
            self.spokes[voter] = spoke

    def send(self, name: str, message: KeeperMessage) -> None:
        """Send a message to a host if it is connected; reports and orders are sent again."""
        if name in self.spokes:
            self.spokes[name].send(message.document())
        elif self.listener is not None:
            self.listener.send(name, message.document())

    def connected(self) -> "set[str]":
        reached = {name for name, spoke in self.spokes.items() if spoke.connected()}
        return reached | (self.listener.connected() if self.listener is not None else set())

    def close(self, last_words: float = 0.0) -> None:
        """Close all connections. `last_words`: seconds that each has to send what is unsent."""
        for link in [self.listener, *self.spokes.values()]:
            if link is not None:
                if last_words:
                    link.flush(last_words)
                link.close()
