"""Whether a run is started again, and on which hosts. Pure."""

import re

from ipexctl.common.attempt_record import AttemptEnded
from ipexctl.remote.hub.judge import is_rank_failure

AT_ONCE = 60.0  # seconds; what fails sooner is not for want of luck
BACK_OFF = (0.0, 0.0, 5.0, 15.0, 30.0)  # seconds before attempts in a row that ended so soon
STALLED = "--stall-action restart"
# no restart changes these: the last line of a traceback
_INCURABLE = re.compile(
    r"^(SyntaxError|IndentationError|TabError|ModuleNotFoundError|ImportError"
    r"|NameError|FileNotFoundError|argparse\.ArgumentError)\b"
)
_ERROR = re.compile(r"^[\w.]+(?:Error|Exception|Exit|Interrupt)\b")
_USAGE = re.compile(r"^\S+: error: ")  # argparse
_RANK = re.compile(r"^\[rank\d+\]: ")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?")


def classify_ending(facts, seconds):
    """How an attempt ended: fields of AttemptEnded. `facts`: those that ended it, the first one
    first (remote/hub/judge.py)."""
    for fact in facts:
        event = fact.get("event")
        if event == "asked" and fact.get("by") == STALLED:
            return make_ending(True, "it stood still")
        if event in ("asked", "timeout", "abandoned"):
            return make_ending(
                False, {"asked": "it was stopped", "timeout": "--timeout"}.get(event, "")
            )
    lost = [fact["host"] for fact in facts if fact.get("event") == "lost" and "host" in fact]
    if lost:
        return make_ending(True, "%s: lost" % ", ".join(dict.fromkeys(lost)), lost=lost)
    for fact in facts:
        if fact.get("event") == "rank" and is_rank_failure(fact.get("ended") or {"code": 0}):
            return of_rank(fact, seconds)
        if fact.get("event") in ("frozen", "program"):
            return make_ending(True, "%s on %s" % (NAMES[fact["event"]], fact.get("host")))
    return make_ending(False, "how it ended is not known" if not facts else "it did not begin")


def make_ending(again, why, error="", lost=()):
    return {"again": again, "why": why, "error": error, "lost": sorted(set(lost))}


NAMES = {"frozen": "a rank was stopped", "program": "a program of MPI ended"}


def of_rank(fact, seconds):
    how = fact["ended"]
    lines = [line for line in str(fact.get("tail", "")).splitlines() if line.strip()]
    said = _RANK.sub("", lines[-1].strip())[:200] if lines else ""
    last = said if _ERROR.match(said) else ""
    end = "signal %s" % how["signal"] if how.get("signal") else "exit code %s" % how.get("code")
    end = "killed" if how.get("lost") else end
    why = "rank %s on %s: %s" % (fact.get("rank"), fact.get("host"), last or end)
    if _INCURABLE.match(last) or _USAGE.match(said):
        return make_ending(False, "%s: a restart does not change that" % why)
    if seconds < AT_ONCE and "oom-rank" in (how.get("hints") or []):
        return make_ending(False, "%s: its memory ran out at once" % why)
    killed = how.get("signal") == 9 or how.get("lost")  # not an error of its own
    return make_ending(True, why, "" if killed else "%s %s" % (end, _NUMBER.sub("0", last)))


def why_no_restart(end: AttemptEnded, before, made, limit):
    """Why there is no further attempt, "" if there is one.

    `before`: (error, newest checkpoint) of the attempt before and of this one; `made`: restarts.
    """
    if not end.again:
        return end.why
    if made >= limit:
        return "%s; no restarts are left (--restarts %d)" % (end.why, limit)
    if end.error and len(before) == 2 and before[0] == before[1]:
        return "%s: the same error twice, with no checkpoint in between" % end.why
    return ""


def restart_pause(endings: "list[AttemptEnded]"):
    """Seconds to wait before the next attempt, after programs that failed at once. An attempt that
    lost a host does not count. `endings`: those of the record."""
    soon = 0
    for one in reversed([one for one in endings if one.ran]):
        if one.lasted >= AT_ONCE or one.lost:
            break
        soon += 1
    return BACK_OFF[min(soon, len(BACK_OFF) - 1)]


def choose_next_hosts(last, every, there, least, most):
    """The hosts of the next attempt; [] where they are too few. `last`: those of the one before, in
    order; `every`: all, spares last; `there`: those that answer; `most`: as many as at first."""
    free = [name for name in every if name in there and name not in last]
    found = []
    for name in last:
        if name in there:
            found.append(name)
        elif free:
            found.append(free.pop(0))
    found += free[: max(0, most - len(found))]
    return found if len(found) >= least else []
