"""Hosts that had an install, runs and data are as they were before the first install."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ipexctl.lab import Lab, LabSpec
from tests.conftest import MakeLab
from tests.install.conftest import Outcome, Shop
from tests.install.test_install_lab import over_ssh, with_real_uv

PLACES = "/home/trainer /tmp /var/tmp /dev/shm"


def tree(lab: Lab, host: str) -> list[str]:
    """Every file and folder where an ordinary user can write, with its mode and owner."""
    find = f"find {PLACES} -printf '%p %y %m %u %l\\n' | sort"
    return str(lab.run_in(host, ["/bin/sh", "-c", find]).stdout).splitlines()


def call(shop: Shop, lab: Lab, *words: str) -> Outcome:
    files = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    at = 2 if words[0] == "data" else 1
    return shop.ipexctl(*words[:at], *files, *words[at:])


def test_every_host_is_as_before_the_first_install(
    full_rung: None, shop: Shop, make_lab: MakeLab
) -> None:
    with_real_uv(shop)
    lab = make_lab(LabSpec.plain(2, name="leave"))
    before = {name: tree(lab, name) for name in lab.hosts}
    assert over_ssh(shop, lab).code == 0
    (shop.work / "set").mkdir()
    (shop.work / "set" / "x").write_bytes(bytes(1 << 20))
    assert call(shop, lab, "data", "push", "set").code == 0
    script = "import time, sys\nopen('out.txt', 'w').write('1')\n"
    Path(shop.work / "train.py").write_text(script)
    ran = call(shop, lab, "run", "-y", "-n", "2", "--data", "set", "train.py")
    assert ran.code == 0, ran.out + ran.err
    during = {name: tree(lab, name) for name in lab.hosts}
    done = call(shop, lab, "remove", "--all", "-y", "--json")
    assert done.code == 0, done.out + done.err
    assert [h["state"] for h in json.loads(done.out)["hosts"]] == ["changed"] * 2
    assert all(len(during[name]) > len(before[name]) + 20 for name in lab.hosts)
    assert {name: tree(lab, name) for name in lab.hosts} == before


def test_a_host_with_an_active_run_keeps_everything_and_names_the_run(
    full_rung: None, shop: Shop, make_lab: MakeLab
) -> None:
    with_real_uv(shop)
    lab = make_lab(LabSpec.plain(2, name="busy"))
    assert over_ssh(shop, lab).code == 0
    Path(shop.work / "train.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(600)")
    files = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    running = subprocess.Popen(
        [sys.executable, "-m", "ipexctl", "run", *files, "-n", "1", "--json", "-y", "train.py"],
        cwd=shop.work, env=shop.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert running.stdout
        events = (json.loads(line) for line in running.stdout)
        run_id = next(e["run_id"] for e in events if e["event"] == "plan")
        next(e for e in events if e["event"] == "line")
        done = call(shop, lab, "remove", "--all", "-y", "--json")
        document = json.loads(done.out)
        assert (done.code, [h["state"] for h in document["hosts"]]) == (1, ["failed", "changed"])
        assert run_id in str(document["found"][0]["in_use"])
        assert running.poll() is None
        kept = lab.run_in("node01", ["sh", "-c", "ls ~trainer/.ipexctl"])
        assert "current" in str(kept.stdout)
    finally:
        running.terminate()
        running.wait(60)
        running.stdout.close()
