"""What hosts report of ranks and programs: read once, and what no host of ours sends is refused."""

import json

LARGEST = 64 * 1024  # of what a host says of a rank's place


def failed(how):
    """Did a rank that ended so fail? One that torch-ccl aborted had done its work."""
    return how.get("code") != 0 and how.get("aborted") is not True


def by_signal(code):
    """Was a program of MPI killed? A shell around it says 128 + the signal."""
    return code < 0 or 128 < code < 128 + 65


def whole(value):
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
    """How a rank ended, in one way, and nothing else that may be in it."""
    code, signal = (None if how.get(k) is None else whole(how[k]) for k in ("code", "signal"))
    lost = how.get("lost") is True
    if [code is not None, signal is not None, lost].count(True) != 1:
        raise ValueError("it has no end or two")
    usage, hints = how.get("usage"), how.get("hints")
    if usage is not None:
        usage = {key: amount(usage[key]) for key in ("seconds", "cpu", "memory")}
    return {
        "code": code,
        "signal": signal,
        "lost": lost,
        "usage": usage,
        "hints": [str(hint)[:40] for hint in hints[:8]] if isinstance(hints, list) else [],
        "aborted": signal == 6 and how.get("aborted") is True,
    }
