"""Known failures, planted on the hosts of one lab: each is seen, on its host, with its fix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ipexctl.explain.known_failures import known_failures
from ipexctl.lab import Lab, LabSpec
from ipexctl.lab.cluster import rung_limits
from tests.doctor.corpus import FAULTS, HOSTS, TOGETHER, Seed
from tests.made import OF_MACHINE
from tests.practice_hosts import start_lab

pytestmark = pytest.mark.lab


@dataclass(frozen=True)
class Seen:
    document: dict[str, Any]
    text: str

    def host(self, name: str) -> dict[str, Any]:
        return next(h for h in self.document["hosts"] if h["name"] == name)

    def told(self, host: str, number: str) -> list[dict[str, Any]]:
        """What the host is told under that id; for a host that was not reached, its error."""
        error = self.host(host)["error"]
        if error:
            return [{**error, "fix": error["hint"]}] if error["slug"] == number else []
        return [f for f in self.host(host)["findings"] if f["id"] == number]


@pytest.fixture(scope="module")
def seen(full_rung, lab_root, tmp_path_factory) -> Iterator[Seen]:
    shapes = tuple(replace(p.shape, name=name) for name, p in HOSTS.items())
    lab = start_lab(LabSpec(name="corpus", hosts=shapes), lab_root)
    try:
        plant(lab)
        folder = tmp_path_factory.mktemp("corpus")
        yield look(lab, folder)
    finally:
        lab.down()


def plant(lab: Lab) -> None:
    plain = lab.hosts["plain"].address
    for name, planted in HOSTS.items():
        home = lab.hosts[name].home
        if planted.script:
            script = f"H={home} PLAIN={plain}\nset -e\n{planted.script}\n"
            if lab.rung == rung_limits.FULL:  # elsewhere the host's root is its user
                script += f"\nchown -hR trainer: {home}"
            done = lab.run_in(name, ["bash", "-c", script])
            assert done.returncode == 0, (name, done.stderr)
    for name, fault in FAULTS.items():
        lab.fault(name, fault)


def look(lab: Lab, folder: Any) -> Seen:
    """One doctor for all; nobody has accepted the key of `stranger`."""
    address = lab.hosts["stranger"].address
    known = folder / "known_hosts"
    lines = lab.known_hosts.read_text().splitlines()
    known.write_text("".join(f"{line}\n" for line in lines if address not in line))
    config = folder / "config"
    config.write_text(lab.ssh_config.read_text().replace(str(lab.known_hosts), str(known)))
    argv = [sys.executable, "-m", "ipexctl", "doctor", "--json", "-f", str(lab.hostfile)]
    env = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(
        [*argv, "-F", str(config)], capture_output=True, text=True, timeout=120, env=env
    )
    return Seen(json.loads(done.stdout), done.stdout + done.stderr)


def planted() -> list[Any]:
    return [
        pytest.param(host, seed, id=f"{host}-{seed.id}-{seed.cause}")
        for host, p in HOSTS.items()
        for seed in p.seeds
    ]


@pytest.mark.parametrize(("host", "seed"), planted())
def test_a_planted_failure_is_seen_on_its_host_with_its_fix(seen: Seen, host: str, seed: Seed):
    found = seen.told(host, seed.id)
    assert found, [f["id"] for f in seen.host(host)["findings"]] or seen.host(host)["error"]
    assert any(seed.fix in f["fix"] for f in found), found


@pytest.mark.parametrize(("cause", "number", "evidence", "fix"), TOGETHER)
def test_a_failure_of_several_hosts_together_is_seen(seen: Seen, cause, number, evidence, fix):
    found = [f for f in seen.document["findings"] if f["id"] == number]
    assert [f for f in found if evidence in f["evidence"] and fix in f["fix"]], found


def test_a_closed_port_beside_master_port_is_seen_where_others_work(seen: Seen):
    hosts = seen.document["hosts"]
    blamed = {h["name"]: f for h in hosts for f in h["findings"] if f["id"] == "NET-004"}
    assert "names" not in blamed
    assert blamed["plain"]["evidence"].startswith("names to ")
    assert "ip route" in blamed["plain"]["fix"]


def test_a_healthy_host_among_broken_ones_is_blamed_for_nothing_of_its_own(seen: Seen):
    """It lacks an environment that others have, and some hosts have closed themselves to it."""
    found = {f["id"] for f in seen.host("plain")["findings"] if f["severity"] != "note"}
    assert found - OF_MACHINE <= {"SOFT-014", "NET-003", "NET-004"}


@pytest.mark.parametrize("number", ["DISK-001", "TMP-001", "SHM-004"])
def test_a_read_only_mount_is_called_so_and_no_fix_writes_to_it(seen: Seen, number: str):
    (finding,) = seen.told("sealed", number)
    assert finding["evidence"].endswith("mounted read-only")
    assert not {"chmod", "mkdir"} & set(finding["fix"].split())


def test_no_secret_of_an_account_leaves_its_host(seen: Seen):
    assert "canary" not in seen.text


def test_the_corpus_is_large_and_names_failures_that_are_known():
    named = [seed.cause for p in HOSTS.values() for seed in p.seeds] + [t[0] for t in TOGETHER]
    named = [slug for slug in named if slug]
    by_name = {c.slug: c for c in known_failures()}
    assert set(named) <= set(by_name)
    seeds = [s for p in HOSTS.values() for s in p.seeds if s.cause]
    assert all(s.id in by_name[s.cause].checks for s in seeds)
    assert len({(seed.id, host) for host, p in HOSTS.items() for seed in p.seeds}) >= 40
    assert len(set(named)) >= 28
