"""Make load_dataset("ORG/NAME") use the cache of the Hugging Face Hub in offline mode.

In offline mode the library `datasets` looks only for what it has converted before. Here it gets the
repository's folder in the cache instead, as if the script had named it. Seen with datasets 5.2.
"""

import functools
import os

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.in_ranks.rank_site import AfterImport


def begin(after_import: "AfterImport") -> None:
    after_import("datasets.load", look_in_cache)


def look_in_cache(module: "Any") -> None:
    """Patch `datasets.load`, which is `module`."""
    original = module.dataset_module_factory

    @functools.wraps(original)
    def factory(
        path: object, revision: "str | None" = None, *args: "Any", **kwargs: "Any"
    ) -> "Any":
        offline = getattr(module.config, "HF_HUB_OFFLINE", False)
        folder = find_cached_dataset(path, revision or "main") if offline else None
        return original(folder or path, revision, *args, **kwargs)

    module.dataset_module_factory = factory


def find_cached_dataset(name: object, revision: str) -> "str | None":
    """Return the folder with the files of the repository, None if the cache does not have it."""
    if not isinstance(name, str) or name.count("/") > 1 or os.path.exists(name):
        return None
    from huggingface_hub import constants

    top = os.path.join(constants.HF_HUB_CACHE, "datasets--" + name.replace("/", "--"))
    try:
        with open(os.path.join(top, "refs", revision)) as file:
            revision = file.read().strip()
    except OSError:
        pass  # the revision is a commit
    folder = os.path.join(top, "snapshots", revision)
    return folder if os.path.isdir(folder) else None
