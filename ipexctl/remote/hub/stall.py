"""Detect that a run has stalled, from its hosts' reports. No I/O, no clock: `now` is given.

When all ranks are quiet for the limit, every host looks at its ranks. If none of them computes, the
run is stalled. A rank that computes makes the next look come later.
"""

QUIET = 10.0  # seconds without progress from which a rank counts as quiet
LOOK_WAIT = 4.0  # seconds for the looks of all hosts
LAST_LOOK_WAIT = 2.0  # the same, before the run is ended
NOTED = 2.0  # seconds from the report of a stall to the end of the run: watchers show why first
FRESH = 5.0  # age in seconds up to which a look is recent enough for the end


class StallWatch:
    def __init__(self, limit: float, hosts: "set[str]", now: float) -> None:
        self.limit = limit  # seconds, 0: never look
        self.hosts = hosts
        # host -> (seconds, when it said so)
        self.quiet_at = {}  # type: dict[str, tuple[float, float]]
        self.progress = now  # when the run last made progress: a rank started or ended
        self.number = 0  # of the last look
        # host -> whether a rank there computes; of that look
        self.looked = {}  # type: dict[str, bool]
        self.began = None  # type: float | None  # when it was ordered; None: it is complete
        self.wait = LOOK_WAIT
        self.last = now - FRESH  # when the last complete look was ordered
        self.due = limit  # seconds without progress after which the next look comes
        self.stalled = False

    def heard(self, host: str, seconds: float, now: float) -> None:
        self.quiet_at[host] = (seconds, now)

    def moved(self, now: float) -> None:
        """Note that a rank started or ended, which counts as progress."""
        self.progress = now

    def quiet(self, active: "list[str]", now: float) -> float:
        """Return the seconds without progress on any of these hosts."""
        silences = [now - self.progress]
        for host in active:
            seconds, reported_at = self.quiet_at.get(host, (0.0, now))
            silences.append(seconds + now - reported_at if seconds else 0.0)
        return min(silences) if active else 0.0

    def order(self, now: float, wait: float) -> int:
        """Begin a look; return its number."""
        self.number += 1
        self.looked, self.began, self.wait = {}, now, wait
        return self.number

    def take(self, host: str, number: int, computes: bool) -> None:
        if number == self.number and host in self.hosts:
            self.looked[host] = computes

    def complete(self, active: "list[str]", now: float) -> bool:
        """End the look when all hosts have answered or time is up; return True once per look."""
        if self.began is None:
            return False
        if not set(active) <= set(self.looked) and now - self.began < self.wait:
            return False
        self.last, self.began = self.began, None
        return True

    def computes(self) -> bool:
        return any(self.looked.values())

    def wants_last_look(self, active: "list[str]", now: float) -> bool:
        """Return whether to look before the run ends: ranks are quiet, the last look is old."""
        return self.quiet(active, now) >= QUIET and now - self.last > FRESH and self.began is None

    def news(self, active: "list[str]", now: float) -> str:
        """Return what to do or to report now: "look", "stalled", "moving" or ""."""
        quiet = self.quiet(active, now)
        if quiet < QUIET:
            self.due = self.limit
            if self.stalled:
                self.stalled = False
                return "moving"
        if self.complete(active, now):
            if quiet >= QUIET and not self.computes():
                if not self.stalled:
                    self.stalled = True
                    return "stalled"
            elif quiet >= QUIET:
                self.due = 2 * max(quiet, self.limit)
        elif self.limit and quiet >= self.due and self.began is None and not self.stalled:
            return "look"
        return ""
