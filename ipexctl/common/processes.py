"""Read from /proc which processes exist, what they are and how they are related."""

from ipexctl.common.tolerant_reads import names_in


def process_ids():
    # type: () -> list[int]
    """Return the ids of all processes visible in /proc."""
    return [int(name) for name in names_in("/proc") if name.isdigit()]


def stat_of(pid):
    # type: (int | str) -> tuple[str, list[str]]
    """Return the name of a process and its stat fields from the state on: 1 is the parent, 11 and
    12 the ticks in user and kernel mode, 19 the start. ("", []) if it has ended."""
    try:
        with open("/proc/%s/stat" % pid, "rb") as file:
            head, _, fields = file.read().rpartition(b")")
    except OSError:
        return "", []
    return head.partition(b"(")[2].decode("utf-8", "replace"), fields.decode("ascii").split()


def environ_of(pid):
    # type: (int) -> list[bytes]
    """Return NAME=value of each variable in the initial environment of a process."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def process_times():
    # type: () -> dict[int, tuple[str, int, int]]
    """Return {process id: (name, parent, ticks in user and kernel mode)}."""
    stats = ((pid, stat_of(pid)) for pid in process_ids())
    return {
        pid: (name, int(words[1]), int(words[11]) + int(words[12]))
        for pid, (name, words) in stats
        if words
    }


def with_ancestors(pid, processes):
    # type: (int, dict[int, tuple[str, int, int]]) -> set[int]
    """Return the process and its ancestors, without init."""
    pids = set()  # type: set[int]
    while pid in processes and pid > 1 and pid not in pids:
        pids.add(pid)
        pid = processes[pid][1]
    return pids


def find_descendants(pid, processes):
    # type: (int, dict[int, tuple[str, int, int]]) -> set[int]
    """Return the descendants of a process, without the process itself."""
    pids, size = {pid}, 0
    while len(pids) > size:
        size = len(pids)
        pids |= {child for child, (_, parent, _) in processes.items() if parent in pids}
    return pids - {pid}


def fields_of(text):
    # type: (str) -> dict[str, str]
    """Parse lines `name : value`; the first line of a name counts."""
    fields = {}  # type: dict[str, str]
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def user_name(uid: int) -> str:
    """Return the name of an account, "uid 1000" if it has none here."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid %d" % uid
