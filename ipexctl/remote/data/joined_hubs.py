"""Several hub caches as one, for a run that uses several: there is one HF_HOME.

ROOT/data/.hubs/KEY/hub has a link to each repository. A KEY stands for the same versions always.
"""

import hashlib
import os
import shutil

from ipexctl.remote import root_folder


def join(root, homes):
    """The HF_HOME with all repositories of these; of a repository that two have, the first."""
    key = hashlib.sha256("\0".join(homes).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    remove_broken(root)
    home = root_folder.subfolder(root, "data", ".hubs", key)
    hub = root_folder.subfolder(home, "hub")
    for one in homes:
        for name in os.listdir(os.path.join(one, "hub")):
            try:
                os.symlink(os.path.join(one, "hub", name), os.path.join(hub, name))
            except FileExistsError:
                pass
            except OSError as e:
                raise root_folder.write_failure(e, root, 0) from None
    return home


def remove_broken(root):
    """Those that lack a dataset by now: no run can use them."""
    top = os.path.join(root, "data", ".hubs")
    for key in os.listdir(top) if os.path.isdir(top) else ():
        hub = os.path.join(top, key, "hub")
        names = os.listdir(hub) if os.path.isdir(hub) else []
        if not all(os.path.exists(os.path.join(hub, name)) for name in names):
            shutil.rmtree(os.path.join(top, key), ignore_errors=True)
