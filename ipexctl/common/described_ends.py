"""How a process of a run ended, in words: the same ones in a record, a notice and a summary."""

SIGNALS = {
    2: " (SIGINT)",
    4: " (SIGILL: an instruction this CPU does not have)",
    6: " (SIGABRT)",
    7: " (SIGBUS: often a full /dev/shm)",
    8: " (SIGFPE)",
    9: " (SIGKILL)",
    11: " (SIGSEGV)",
    15: " (SIGTERM)",
}


def describe_signal(number: int) -> str:
    return "was ended by signal %d%s" % (number, SIGNALS.get(number, ""))


def describe_rank_end(code: "int | None", signal: "int | None", lost: bool) -> str:
    """Describe the end of a rank. `lost`: its wrapper ended without a report."""
    if signal is not None:
        return describe_signal(signal)
    if lost:
        return "was killed"
    return "exited with an unknown code" if code is None else "exited with code %d" % code


def describe_program_end(code: "int | None") -> str:
    """Describe how a program that started ranks ended; below 0: by that signal, above 128: a shell
    says so; None: its exit code is not known."""
    if code is None:
        return "was killed or gave up"
    if code < 0:
        return describe_signal(-code)
    return "ended with code %d%s" % (code, SIGNALS.get(code - 128, ""))
