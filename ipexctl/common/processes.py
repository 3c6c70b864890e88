"""What the kernel says in /proc of processes, and of itself."""

from ipexctl.common.tolerant_reads import names_in


def process_ids():
    # type: () -> list[int]
    """Every process that is seen here."""
    return [int(name) for name in names_in("/proc") if name.isdigit()]


def stat_of(pid):
    # type: (int | str) -> tuple[str, list[str]]
    """The name of a process and the words that follow it, from its state on: parent at 1, ticks in
    user and kernel mode at 11 and 12, start at 19. ("", []) for one that is gone."""
    try:
        with open("/proc/%s/stat" % pid, "rb") as file:
            head, _, rest = file.read().rpartition(b")")
    except OSError:
        return "", []
    return head.partition(b"(")[2].decode("utf-8", "replace"), rest.decode("ascii").split()


def environ_of(pid):
    # type: (int) -> list[bytes]
    """NAME=value of each variable that a process was started with."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def process_times():
    # type: () -> dict[int, tuple[str, int, int]]
    """Process -> (name, parent, ticks in user and kernel mode)."""
    stats = ((pid, stat_of(pid)) for pid in process_ids())
    return {
        pid: (name, int(words[1]), int(words[11]) + int(words[12]))
        for pid, (name, words) in stats
        if words
    }


def with_ancestors(pid, processes):
    # type: (int, dict[int, tuple[str, int, int]]) -> set[int]
    """A process and those above it, up to init."""
    found = set()  # type: set[int]
    while pid in processes and pid > 1 and pid not in found:
        found.add(pid)
        pid = processes[pid][1]
    return found


def descendants(pid, processes):
    # type: (int, dict[int, tuple[str, int, int]]) -> set[int]
    """The processes below one."""
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {one for one, (_, parent, _) in processes.items() if parent in found}
    return found - {pid}


def fields_of(text):
    # type: (str) -> dict[str, str]
    """`name : value` lines, the first of each name."""
    fields = {}  # type: dict[str, str]
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields
