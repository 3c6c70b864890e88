"""What the kernel says of a process in /proc/PID/stat."""


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
