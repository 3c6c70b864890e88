"""What this host has recorded of a run, for `report`: facts, samples, what its ranks did last."""

import json
import os

from ipexctl.remote.run_files import journal, run_folders

MOST = 4000  # records that are told, the first and the last ones
MOST_VALUES = 100000  # of samples: an answer holds five times as many
TAIL = 2000  # characters of what a rank printed last
LEFT_OUT = ("look", "log", "log-end", "result", "about")


def op_read(call, h):
    """{root, journal, run_id} -> {began, records, samples}

    `began`: when the run began, by this host's clock. `samples`: as Pace.keep writes them.
    """
    folder = run_folders.folder_of(h)
    records = journal.parse(journal.contents(journal.path_of(folder, h["journal"])))
    began = next((r["began"] for r in records if "began" in r), 0.0)
    told = [shortened(r) for r in records if not any(name in r for name in LEFT_OUT)]
    if len(told) > MOST:
        told = told[: MOST // 2] + told[-MOST // 2 :]
    samples = rows(journal.samples_path(folder, h["journal"]))
    return {"began": began, "records": told, "samples": thinned(samples)}


def shortened(record):
    fact = record.get("fact")
    if isinstance(fact, dict) and isinstance(fact.get("tail"), str):
        return dict(record, fact=dict(fact, tail=fact["tail"][-TAIL:]))
    return record


def rows(path):
    """What is readable of a history."""
    found = []
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            for line in file:
                row = json.loads(line)
                if isinstance(row, dict) and isinstance(row.get("ranks"), dict):
                    found.append(row)
    except (OSError, ValueError):
        pass  # an older version kept none, or the last line is being written
    return found


def thinned(samples):
    values = sum(5 + 4 * len(row["ranks"]) for row in samples)
    every = -(-values // MOST_VALUES)
    return samples[::every] if every > 1 else samples
