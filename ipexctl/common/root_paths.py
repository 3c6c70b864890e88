"""Rules for the path of ipexctl's folder on a host, and for the ids of a run's attempts there.
Pure."""

import re

UNUSABLE = re.compile(r"[^\w/.@+,=~-]")
PATH_WHY = "MPI launchers split or misread such a path, so no run could start from it"
PATH_HINT = "--root /path   # letters, digits and / . _ - + @ , = ~ only"
ATTEMPT = re.compile(r"-r([0-9]{2,})$")  # ends the id of every attempt after the first


def path_problem(*paths: str) -> str:
    """Return why these paths cannot be used for the root folder; "" if they can."""
    for path in paths:
        match = UNUSABLE.search(path)
        if match:
            character = "a space" if match.group() == " " else repr(match.group())
            return "%s contains %s" % (path, character)
    return ""


def run_id_of(first_id: str, attempt: int) -> str:
    """Return the id of an attempt of the run whose first attempt has the id `first_id`."""
    return first_id if attempt == 1 else "%s-r%02d" % (first_id, attempt)
