"""A look at the ranks of this host, while none of them makes progress."""

import json
import threading

from ipexctl.remote.run_files import journal

LARGEST = journal.LONGEST // 2  # bytes of a look that the journal keeps
BUSY = 0.1  # CPUs in use from which a rank computes
COMMUNICATION = ("/torch/distributed/", "/mpi4py/", "/torch_ccl/", "/oneccl_bindings_for_pytorch/")
lock = threading.Lock()  # two looks at once would disturb each other


def take(supervisor):
    """(the look, does a rank compute). See remote/hang/look.py."""
    from ipexctl.remote.hang import look  # only a run that stands still needs it

    site = supervisor.programs.site()
    with lock, supervisor.progress.paused():
        pids = supervisor.sampler.rank_pids()
        found = look.look(site, pids)
    if len(json.dumps(found)) > LARGEST:
        for rank in found:
            rank["threads"] = [thread for thread in rank["threads"] if thread["main"]]
            rank["children"] = rank["children"][:2]
    return found, any(computes(rank) for rank in found)


def computes(rank):
    """Whether it uses its CPU, other than to wait in a loop or in a library for communication."""
    if rank["state"] == "T" or rank["cpu"] < BUSY or rank["waits_in_loop"]:
        return False
    frames = [thread["frames"] for thread in rank["threads"] if thread["main"]]
    innermost = frames[0][0][0] if frames and frames[0] else ""
    return not any(name in innermost for name in COMMUNICATION)
