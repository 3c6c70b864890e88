"""Who could replace what a path names: the folders and links it leads through, and their groups."""

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


def has_acl(path):
    # type: (str | os.PathLike[str]) -> bool
    """Whether an ACL is set: the group bits of the mode then stand for users that it names."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except (OSError, AttributeError):  # macOS has neither
        return False


def is_private_group(gid):
    # type: (int) -> bool
    """Whether the current user is its only member: many systems create such a group per user.

    Members are listed only for those whose second group it is. Where it is the first one of others,
    it has not the user's name; and a directory service may not tell who they are.
    """
    import grp
    import pwd

    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    if gid != 0 and (gid != me.pw_gid or group.gr_name != me.pw_name):
        return False  # before all users are asked for, which a directory service may take long for
    first = {p.pw_name for p in pwd.getpwall() if p.pw_gid == gid and p.pw_uid != me.pw_uid}
    return not (set(group.gr_mem) | first) - {me.pw_name, "root"}
