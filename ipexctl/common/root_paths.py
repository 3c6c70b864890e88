"""What the path of ipexctl's folder on a host may have, and how attempts of a run are called there.
Pure."""

import re

UNUSABLE = re.compile(r"[^\w/.@+,=~-]")
PATH_WHY = "MPI launchers split or misread such a path, so no run could start from it"
PATH_HINT = "--root /path   # letters, digits and / . _ - + @ , = ~ only"
ATTEMPT = re.compile(r"-r([0-9]{2,})$")  # at the end of the id of a further attempt


def path_problem(*paths: str) -> str:
    """Why nothing can be in a folder with these paths; "" if they are usable."""
    for path in paths:
        odd = UNUSABLE.search(path)
        if odd:
            character = "a space" if odd.group() == " " else repr(odd.group())
            return "%s contains %s" % (path, character)
    return ""


def run_id_of(first: str, attempt: int) -> str:
    """The id of an attempt of the run whose first one has that id."""
    return first if attempt == 1 else "%s-r%02d" % (first, attempt)
