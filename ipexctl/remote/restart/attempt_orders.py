"""What each host is told for a further attempt of a run, from the sheets of all hosts. Pure.

A sheet has what does not depend on who else takes part: run/watch/start_request.py makes it.
"""

import posixpath

from ipexctl.common.root_paths import run_id_of

SHARE = "IPEXCTL_SHARE"
N = "{n}"  # in mpirun's words: the number of ranks


def compose(common, sheets, attempt, checkpoint=""):
    """[(host, orders), ...]. `sheets`: of the hosts that take part, that of rank 0 first.
    `checkpoint`: its path below the folder of the ranks."""
    checkpoint = checkpoint or common["resumed"]
    first = sheets[0]
    world = sum(len(sheet["asked"]["ranks"]) for sheet in sheets)
    facts = {
        "world": world,
        "hosts": len(sheets),
        "address": first["address"],
        "port": first["port"],
        "run_id": run_id_of(common["run_id"], attempt),
        "restarts": attempt - 1,
    }
    mpirun = [moved(word, common["run_id"], facts) for word in first["mpirun"]]
    made, begin = [], 0
    for index, sheet in enumerate(sheets):
        made.append(of_host(common, sheet, dict(facts, index=index, begin=begin), checkpoint))
        begin += len(sheet["asked"]["ranks"])
    for asked, row in made:
        asked["hub"] = first["asked"]["host"]
        asked["machinefile"] = "".join(sheet["line"] for sheet in sheets)
        asked["starts"] = [mpirun] if mpirun else [row["starter"]]
    share_out([rank["env"] for asked, _ in made for rank in asked["ranks"]])
    about = dict(common["about"], hosts=[s["asked"]["host"] for s in sheets], ranks=world)
    for asked, _ in made:
        asked["about"] = dict(about, attempt=attempt)
    made[0][0]["run"] = dict(
        common["of_all"],
        hosts=[row for _, row in made],
        mpirun=mpirun,
        address=first["address"],
        shown=shown(common, sheets, facts),
    )
    return [(asked["host"], asked) for asked, _ in made]


def share_out(envs):
    """The parts of the global batch add to 1 for the ranks that take part."""
    total = sum(float(env[SHARE]) for env in envs if SHARE in env)
    for env in envs:
        if SHARE in env:
            env[SHARE] = "%.12g" % (float(env[SHARE]) / total)


def moved(word, base, facts):
    """A word of mpirun's: the number of ranks, or a path in the run's folder."""
    return str(facts["world"]) if word == N else word.replace(base, facts["run_id"])


def of_host(common, sheet, facts, checkpoint):
    """(its orders, its row in those of the hub)"""
    template = sheet["asked"]
    path = posixpath.join(template["cwd"], checkpoint) if checkpoint else ""
    ranks = []
    for local, rank in enumerate(template["ranks"]):
        values = dict(facts, rank=facts["begin"] + local)
        env = {name: str(values[what]) for name, what in common["varies"].items()}
        env = dict(rank["env"], **env)
        argv = list(rank["argv"])
        if path:
            env["IPEXCTL_CHECKPOINT"] = path
            argv += [word.replace("{checkpoint}", path) for word in common["resume"]]
        ranks.append(dict(rank, rank=values["rank"], env=env, argv=argv))
    numbers = [rank["rank"] for rank in ranks]
    starter = list(sheet["row"]["starter"])
    if starter:
        places = ["%d:%d" % (rank["rank"], rank["local_rank"]) for rank in ranks]
        starter[len(starter) - len(places) :] = places
    asked = dict(template, run_id=facts["run_id"], ranks=ranks, store_port=facts["port"], run=None)
    return asked, dict(sheet["row"], ranks=numbers, starter=starter)


def shown(common, sheets, facts):
    """For those who attach: run/plan/shown_plan.py."""
    hosts, begin = [], 0
    for sheet in sheets:
        places = [[begin + n] + place[1:] for n, place in enumerate(sheet["shown"]["ranks"])]
        hosts.append(dict(sheet["shown"], ranks=places))
        begin += len(places)
    return dict(common["shown"], master=[facts["address"], facts["port"]], hosts=hosts)
