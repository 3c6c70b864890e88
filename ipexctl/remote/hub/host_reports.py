"""Reads what hosts report about ranks and programs; raises ValueError for invalid values."""

import json

LARGEST = 64 * 1024  # characters of JSON that a host reports about a rank's placement


def failed(how):
    """Whether a rank with this end failed."""
    return how.get("code") != 0


def by_signal(code):
    """Whether a signal ended a program of MPI. A shell around it exits with 128 + the signal."""
    return code < 0 or 128 < code < 128 + 65


def number(value):
    if type(value) is not int or abs(value) >= 1 << 31:
        raise ValueError("no number")
    return value


def amount(value):
    if type(value) not in (int, float) or not 0 <= value < 1 << 60:  # NaN is not, either
        raise ValueError("no amount")
    return float(value)


def addresses(value):
    if not isinstance(value, list) or len(value) > 256 or not all(is_address(a) for a in value):
        raise ValueError("no addresses")
    return value


def is_address(value):
    return isinstance(value, str) and len(value) < 64


def small(value):
    return value if isinstance(value, dict) and len(json.dumps(value)) < LARGEST else None


def end_of(how):
    """The known fields of a rank's end: it has exactly one of code, signal and lost."""
    code, signal = (None if how.get(k) is None else number(how[k]) for k in ("code", "signal"))
    lost = how.get("lost") is True
    if [code is not None, signal is not None, lost].count(True) != 1:
        raise ValueError("a rank without an end, or with two")
    usage, hints, at_exit = how.get("usage"), how.get("hints"), how.get("at_exit")
    if usage is not None:
        usage = {key: amount(usage[key]) for key in ("seconds", "cpu", "memory")}
    return {
        "code": code,
        "signal": signal,
        "lost": lost,
        "usage": usage,
        "hints": [str(hint)[:40] for hint in hints[:8]] if isinstance(hints, list) else [],
        "at_exit": None if at_exit is None else number(at_exit),
    }
