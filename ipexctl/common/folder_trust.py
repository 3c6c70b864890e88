"""Find who could replace what a path leads to: its folders and links, their groups and ACLs."""

import os

MOST_LINKS = 40  # as in the kernel


def passed_folders(path):
    # type: (str) -> list[str]
    """Return the existing folders and links on the way to `path`. Each link is followed, and the
    folders to which it leads are listed, too. The user's home and the folders above it are left out
    if the way leads through the home."""
    home = os.path.realpath(os.path.expanduser("~"))
    passed, links = [], 0
    folder, todo = os.sep, [name for name in path.split(os.sep) if name]
    while todo:
        name = todo.pop(0)
        if name == os.pardir:
            folder = os.path.dirname(folder)
            continue
        if folder not in passed and os.path.isdir(folder):
            passed.append(folder)
        place = os.path.join(folder, name)
        if os.path.islink(place):
            links += 1
            if links > MOST_LINKS:
                raise OSError("too many links: %s" % path)
            passed.append(place)
            target = os.readlink(place)
            folder = os.sep if target.startswith(os.sep) else folder
            todo = [part for part in target.split(os.sep) if part not in ("", os.curdir)] + todo
        elif name != os.curdir:
            folder = place
    if home not in passed:
        return passed
    return [top for top in passed if not (home + os.sep).startswith(top.rstrip(os.sep) + os.sep)]


def has_acl(path):
    # type: (str | os.PathLike[str]) -> bool
    """Decide whether an ACL is set: the mode's group bits then also stand for users it names."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except (OSError, AttributeError):  # macOS has neither
        return False


def is_private_group(gid):
    # type: (int) -> bool
    """Decide whether the current user is the group's only member: many systems have one per user.

    A group lists only members that have it as a supplementary group. A group that is the primary
    one of other users has another name; a directory service may not list these users at all.
    """
    import grp
    import pwd

    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    if gid != 0 and (gid != me.pw_gid or group.gr_name != me.pw_name):
        return False  # before listing all users, which can be slow with a directory service
    others = [user for user in pwd.getpwall() if user.pw_uid != me.pw_uid]
    primary = {user.pw_name for user in others if user.pw_gid == gid}
    return not (set(group.gr_mem) | primary) - {me.pw_name, "root"}
