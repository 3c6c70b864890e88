"""Environments that were changed by hand: install, env diff and doctor see it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from ipexctl.local.project_lock import this_person
from ipexctl.packages.uv import find_uv
from tests.env.test_envs import links
from tests.install.conftest import TORCH, Shop, make_wheel, until


def site(shop: Shop) -> Path:
    return next((shop.root / "current" / "lib").glob("python3*")) / "site-packages"


def by_hand(shop: Shop, version: str) -> None:
    """What somebody does who wants another numpy in the environment of one host."""
    make_wheel(shop.folder, "numpy", version, {"numpy.py": b"by_hand = True"})
    command = [find_uv(os.environ), "pip", "install", "-q", "--no-index", "--reinstall"]
    command += ["--python", str(shop.root / "current/bin/python"), "--find-links", str(shop.folder)]
    subprocess.run([*command, f"numpy=={version}"], env=shop.environ(), check=True, timeout=60)


def changed_to(version: str) -> dict[str, str]:
    return {"package": "numpy", "was": "2.0", "now": version}


def diff(shop: Shop, *words: str) -> Any:
    return shop.ipexctl("env", "diff", "--root", str(shop.root), *words)


def test_a_package_changed_by_hand_is_found_and_the_next_install_mends_it(shop: Shop) -> None:
    shop.install()
    key = links(shop.root)[0]
    by_hand(shop, "1.26")
    found = diff(shop, "--json")
    (host,) = found.document["hosts"]
    assert (found.code, host["changed"]) == (1, [changed_to("1.26")])
    would = shop.install("--check")
    assert would.states == ["changed"]
    assert key in would.detail and "numpy 2.0 -> 1.26" in would.detail
    assert diff(shop).code == 1
    repaired = shop.install()
    assert (repaired.code, repaired.states) == (0, ["changed"]), repaired.err
    (why,) = repaired.document["hosts"][0]["notes"]
    assert "numpy 2.0 -> 1.26" in why
    assert (links(shop.root), shop.envs()) == ((key, ""), [".lock", key])
    assert diff(shop).code == 0
    assert shop.install().states == ["ok"]


def test_files_changed_by_hand_are_found_and_rebuild_mends_them(shop: Shop) -> None:
    shop.install()
    folder = site(shop)
    edited, before = folder / "torch.py", (folder / "torch.py").stat()
    edited.chmod(0o600)  # it is shared with what stays unpacked
    edited.write_text(edited.read_text().replace("2.13.0", "2.13.1"))
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))  # neither size nor date tells
    (shop.root / "current/.ipexctl-proved").unlink()
    assert shop.install().states == ["ok"]  # proved again, which is no look at files
    (folder / "numpy.py").unlink()
    (folder / "mine.pth").write_text("import os")
    found = diff(shop, "--json")
    (host,) = found.document["hosts"]
    assert (found.code, host["changed"]) == (1, [])
    below = str(folder.relative_to(shop.root / "current"))
    assert host["files"] == [
        {"path": f"{below}/mine.pth", "what": "belongs to no package"},
        {"path": f"{below}/numpy.py", "what": "is gone"},
        {"path": f"{below}/torch.py", "what": "has changed"},
    ]
    assert found.document["next"] == f"ipexctl install --root {shop.root} --rebuild"
    assert shop.install("--rebuild").states == ["changed"]
    assert diff(shop).code == 0


def test_a_library_that_is_gone_is_found_by_install_and_brought_back(shop: Shop) -> None:
    files = {"torch.py": TORCH.format(version="2.13.0+cpu", gradient=128.0).encode()}
    files["torch_lib/libtorch_cpu.so.2"] = b"a stand-in"
    make_wheel(shop.wheels, "torch", "2.13.0+cpu", files)
    shop.install()
    library = site(shop) / "torch_lib/libtorch_cpu.so.2"
    assert shop.install().states == ["ok"]
    library.unlink()
    (host,) = diff(shop, "--json").document["hosts"]
    assert [row["package"] for row in host["changed"]] == ["torch"]
    assert "gone" in diff(shop).out.split()
    assert shop.install("--check").states == ["changed"]
    assert (shop.install().states, library.exists()) == (["changed"], True)


def test_what_python_writes_is_no_change_and_only_what_is_new_is_read(shop: Shop) -> None:
    shop.install()
    python = shop.root / "current/bin/python"
    subprocess.run([python, "-c", "import torch, numpy"], check=True, timeout=60)
    assert list(site(shop).glob("__pycache__/torch.*"))
    runs = [diff(shop, "--json", *more) for more in ((), ("--full",))]
    assert [r.code for r in runs] == [0, 0]
    quick, full = (r.document["hosts"][0] for r in runs)
    assert quick["files_read"] == 0
    assert full["files_read"] == full["files_looked_at"] == quick["files_looked_at"] > 0


def test_a_changed_environment_stays_in_use_until_the_new_one_is_built(shop: Shop) -> None:
    shop.install()
    by_hand(shop, "1.26")
    shop.hold.touch()  # the builder does not end
    building = shop.start()
    try:
        until(lambda: shop.held.exists() and shop.held.read_text().strip())
        assert (site(shop) / "numpy.py").read_text() == "by_hand = True"
    finally:
        building.kill()
        building.communicate()
    shop.hold.unlink()
    assert (site(shop) / "numpy.py").read_text() == "by_hand = True"
    assert shop.install().states == ["changed"]
    assert [path.name for path in shop.root.glob("envs/[!.]*")] == [os.path.basename(shop.current)]
    assert not list(shop.root.glob("envs/.old-*"))
    assert links(shop.root)[1] == ""
    assert diff(shop).code == 0


def test_a_rebuild_that_fails_its_test_leaves_the_changed_environment(shop: Shop) -> None:
    broken = shop.folder / "broken"
    source = f"import os\nassert not os.path.exists({str(broken)!r})\n"
    source += TORCH.format(version="2.13.0+cpu", gradient=128.0)
    make_wheel(shop.wheels, "torch", "2.13.0+cpu", {"torch.py": source.encode()})
    assert shop.install().states == ["changed"]
    by_hand(shop, "1.26")
    broken.touch()
    refused = shop.install()
    assert (refused.code, refused.slugs) == (1, ["env-test-failed"])
    assert (site(shop) / "numpy.py").read_text() == "by_hand = True"
    broken.unlink()
    assert shop.install().states == ["changed"]
    assert diff(shop).code == 0


def test_rollback_leads_to_a_changed_environment_and_says_so(shop: Shop) -> None:
    shop.install()
    first = links(shop.root)[0]
    by_hand(shop, "1.26")
    (shop.work / "ipexctl.lock").unlink()
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    shop.install()
    second = links(shop.root)[0]
    back = shop.ipexctl("install", "--rollback", "--json", "--root", str(shop.root))
    assert (back.states, links(shop.root)) == (["changed"], (first, second))
    assert "numpy 2.0 -> 1.26" in back.detail
    shop.ipexctl("install", "--rollback", "--root", str(shop.root))
    assert links(shop.root) == (second, first)


def test_what_a_run_uses_stays_whoever_watches_it_and_the_run_is_named(shop: Shop) -> None:
    shop.install()
    root = ("--root", str(shop.root))
    (shop.work / "train.py").write_text("import time; print('up', flush=True); time.sleep(600)")
    began = shop.ipexctl("run", "-d", "--force", "-n", "1", *root, "train.py")
    assert began.code == 0, began.err
    run = began.out.strip()
    try:
        refused = shop.install("--rebuild")
        key = os.path.basename(os.readlink(shop.root / "current"))
        (shop.root / "current").unlink()
        kept = shop.ipexctl("env", "rm", key, *root, "-y", "--json").document["hosts"][0]["kept"]
    finally:
        assert shop.ipexctl("stop", run, *root, "-t", "0").code == 0
    assert (refused.code, refused.slugs) == (1, ["env-in-use"])
    user = f"run {run} of {this_person()} runs in"
    assert f"{user} {shop.root}/envs/{key}, which would be rebuilt" in refused.detail
    assert kept == [{"key": key, "why": f"{user} it"}]


class Queue:
    """Runs of this account on this machine, in the environment that the project uses."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.root = shop, ("--root", str(shop.root))
        script = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.1)\n"
        (shop.work / "train.py").write_text(script.replace("'go'", repr(str(shop.folder / "go"))))

    def start(self, *options: str) -> str:
        words = ("run", "-d", "--force", "-n", "1", *self.root, *options, "train.py")
        began = self.shop.ipexctl(*words)
        assert began.code == 0, began.err
        return began.out.strip()

    def row(self, run: str) -> dict[str, Any]:
        rows = self.shop.ipexctl("ps", "-a", "--json", *self.root).document["runs"]
        return next(row for row in rows if row["run_id"] == run)

    def remove_env(self, key: str) -> list[dict[str, str]]:
        words = ("env", "rm", key, *self.root, "-y", "--json")
        return list(self.shop.ipexctl(*words).document["hosts"][0]["kept"])


def second_env(shop: Shop) -> str:
    """Install another environment after the first one, which the links do not protect."""
    shop.install()
    (shop.work / "ipexctl.lock").unlink()
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    shop.install()
    return links(shop.root)[0]


def test_a_queued_run_keeps_its_environment_and_goes_on_after_install_if_it_is_gone(
    shop: Shop,
) -> None:
    shop.install()
    queue = Queue(shop)
    running = queue.start()
    key = second_env(shop)
    waiting = queue.start("--queue", "--name", "later")
    try:
        until(lambda: queue.row(waiting)["waits"])
        (shop.root / "current").unlink()
        why = f"run later ({waiting}) of {this_person()} is queued and will run in it"
        assert queue.remove_env(key) == [{"key": key, "why": why}]
        assert (shop.root / "envs" / key).is_dir()
        shutil.rmtree(shop.root / "envs" / key)
        until(lambda: "its environment was removed" in queue.row(waiting)["waits"])
        assert "ipexctl install" in queue.row(waiting)["waits"]
        assert shop.install().states == ["changed"]
        assert links(shop.root)[0] == key
        until(lambda: "removed" not in queue.row(waiting)["waits"])
        (shop.folder / "go").touch()
        until(lambda: queue.row(waiting)["state"] == "done")
    finally:
        for run in (waiting, running):
            shop.ipexctl("stop", run, *queue.root, "-t", "0")
    (shop.root / "current").unlink()
    until(lambda: not queue.remove_env(key))  # its keeper ends a moment after the run
    assert not (shop.root / "envs" / key).exists()


def test_without_an_environment_there_is_nothing_to_compare(shop: Shop) -> None:
    found = diff(shop)
    assert (found.code, "no environment" in found.out) == (1, True)
    assert not shop.root.exists()
