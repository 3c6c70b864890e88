"""Through which folders and links a path leads: who can replace one of them says what is there."""

import os

MOST_LINKS = 40  # as in the kernel


def passed_folders(path):
    # type: (str) -> list[str]
    """The folders and links on the way to what is there, and, if that is a link, to what it means:
    each link is followed by itself. Names that are not there are not in it, nor is the user's home
    with what is above it, where the way leads through that."""
    home = os.path.realpath(os.path.expanduser("~"))
    found, links = [], 0
    at, todo = os.sep, [name for name in path.split(os.sep) if name]
    while todo:
        name = todo.pop(0)
        if name == os.pardir:
            at = os.path.dirname(at)
            continue
        if at not in found and os.path.isdir(at):
            found.append(at)
        place = os.path.join(at, name)
        if os.path.islink(place):
            links += 1
            if links > MOST_LINKS:
                raise OSError("too many links: %s" % path)
            found.append(place)
            target = os.readlink(place)
            at = os.sep if target.startswith(os.sep) else at
            todo = [one for one in target.split(os.sep) if one not in ("", os.curdir)] + todo
        elif name != os.curdir:
            at = place
    if home not in found:
        return found
    return [one for one in found if not (home + os.sep).startswith(one.rstrip(os.sep) + os.sep)]
