"""What mpirun and its daemons write, of all hosts."""

from __future__ import annotations

from dataclasses import field

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.run_state import Lines
from ipexctl.run.plan import mpi


@dataclass
class MpiWords:
    """`tail`: their last words."""

    tail: list[str] = field(default_factory=list)
    _of_host: dict[str, Lines] = field(default_factory=dict)

    def said(self, host: str, data: bytes) -> None:
        lines = self._of_host.setdefault(host, Lines()).feed(data)
        self.tail = mpi.output_tail(self.tail, lines)

    def failed(self, host: str, error: str) -> None:
        if error:
            self.tail.append(f"{host}: {error}")
