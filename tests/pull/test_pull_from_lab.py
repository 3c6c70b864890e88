"""data pull --from: one practice host has a route to the source; this machine has none."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import Recap
from ipexctl.data import data
from ipexctl.data.pull import Pull, Pulled, pull
from ipexctl.install.progress import Progress, Step
from ipexctl.lab import HostSpec, LabSpec
from ipexctl.lab.cluster import linux
from ipexctl.lab.cluster.practice_cluster import Lab
from ipexctl.machines.target import Target
from tests.cli import ipexctl
from tests.conftest import MakeLab
from tests.files.test_data_chunks import carried
from tests.pull.hub_server import TOKEN, Hub, served
from tests.refused import refused

pytest.importorskip("huggingface_hub")
SIZE = 24 << 20
LARGE = os.urandom(SIZE)
FILES: dict[str, bytes | Path] = {"config.json": b'{"a": 1}', "sub/model.bin": LARGE}
TREE = "data/tiny/current/files/models--acme--tiny"


@contextmanager
def inside(lab: Lab, host: str) -> Iterator[None]:
    """What is opened meanwhile is in the network of that host."""
    with open("/proc/thread-self/ns/net") as own:
        with open(f"/proc/{lab.hosts[host].pid}/ns/net") as its:
            linux.setns(its.fileno(), linux.CLONE_NEWNET)
        try:
            yield
        finally:
            linux.setns(own.fileno(), linux.CLONE_NEWNET)


@pytest.fixture
def away(
    full_rung: None, make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Lab, Hub]]:
    """A hub on the loopback address of node02: only there it is found."""
    hosts = (HostSpec(), HostSpec(disk=300 << 20), HostSpec(disk=300 << 20))
    lab = make_lab(LabSpec(name="pullfrom", hosts=hosts))
    for name in ("HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub = Hub()
    hub.add("models", "acme/tiny", gated=True).files = dict(FILES)
    server = served(hub)
    with inside(lab, "node02"):
        server.__enter__()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    yield lab, hub
    server.__exit__(None, None, None)


def pulled(lab: Lab, source: str = "hf:acme/tiny", step=lambda step: None, **more) -> Pulled:
    limit = more.pop("limit", ())
    target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config, limit=limit)
    asked = Pull(source, agreed=lambda plan: True, via="node02", **more)
    return pull(target, asked, Progress(step=step))


def root(lab: Lab, host: str) -> Path:
    return Path(lab.hosts[host].files) / ".ipexctl"


def states(done: Pulled) -> list[Recap]:
    return [recap.state for recap in done.recaps]


def test_the_source_is_read_once_by_one_host_and_nothing_passes_here(away, tmp_path: Path) -> None:
    lab, hub = away
    with refused("pull-failed"):
        pull(
            Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config),
            Pull("hf:acme/tiny"),
            Progress(),
        )
    before, said = carried(lab), list[str]()
    done = pulled(lab, step=lambda step: said.append(str(step)), limit=("node01", "node02"))
    assert (done.exit_code, states(done)) == (0, [Recap.CHANGED] * 2), done.recaps
    assert done.pushed
    assert (done.fetched, hub.sent.total()) == (SIZE + 8, SIZE + 8)
    assert (done.pushed.passed, done.pushed.sent) == (SIZE + 8 + 40, 40)
    sent = carried(lab) - before
    print(f"{sent:,} bytes left this machine, for {SIZE:,} bytes of data on each of 2 hosts")
    assert sent < 2 << 20
    # another host later: from the one that has it, not from the source
    hub.sent.clear()
    again = pulled(lab)
    assert (states(again), again.plan.lacking) == ([Recap.OK, Recap.OK, Recap.CHANGED], 0)
    assert (again.fetched, hub.sent.total()) == (0, 0)
    commit = hub.repos["models", "acme/tiny"].commit
    for host in lab.hosts:
        snapshot = root(lab, host) / TREE / "snapshots" / commit
        assert (snapshot / "sub/model.bin").read_bytes() == LARGE
        assert (snapshot / "config.json").read_bytes() == FILES["config.json"]
        left = [p for p in (root(lab, host) / "blobs/sha256").rglob("*") if p.is_file()]
        assert [p for p in left if p.stat().st_size != 40] == []  # the ref, for a prune
    assert f"{hub.url[7:]}: Bearer {TOKEN}" in hub.tokens
    kept = [
        *tmp_path.rglob("*"),
        *(p for h in lab.hosts.values() for p in Path(h.files).rglob("*")),
    ]
    files = [p for p in kept if p.is_file() and p.stat().st_size < 1 << 20]
    assert ([p for p in files if TOKEN.encode() in p.read_bytes()], TOKEN in "".join(said)) == (
        [],
        False,
    )
    asked = ("-f", str(lab.hostfile), "--ssh-config", str(lab.ssh_config), "--check", "--json")
    shown = ipexctl("data", "pull", "hf:acme/tiny", "--from", "node02", *asked)
    plan = json.loads(shown.stdout)
    assert (plan["from"], plan["plan"]["bytes_to_fetch"]) == ("node02", 0)


def test_a_fetch_of_a_host_goes_on_where_it_stopped(away) -> None:
    lab, hub = away
    hub.cut["sub/model.bin"] = 8 << 20
    hub.rate = 16 << 20

    def stop(step: Step) -> None:
        if step.done >= 4 << 20:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        pulled(lab, step=stop)
    came = hub.sent.total()
    assert came < SIZE
    hub.rate = 0
    done = pulled(lab)
    assert (done.exit_code, states(done)) == (0, [Recap.CHANGED] * 3), done.recaps
    assert hub.sent.total() < SIZE + (8 << 20)
    assert done.fetched < SIZE


def test_what_a_source_refuses_is_the_failure_of_the_pull(away, monkeypatch) -> None:
    lab, hub = away
    hub.wrong["sub/model.bin"] = 1
    hub.busy = 2
    assert pulled(lab, limit=("node02",)).exit_code == 0
    assert hub.sent["sub/model.bin"] == 2 * SIZE
    target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
    data.remove(target, "tiny", lambda going: True)
    hub.wrong["sub/model.bin"] = 9
    first, second, third = pulled(lab).recaps
    assert (first.slug, second.slug, third.slug) == (
        "source-host-unreached", "pull-damaged", "source-host-unreached",
    )  # fmt: skip
    hub.wrong.clear()
    hub.wrong["config.json"] = 9
    hub.repos["models", "acme/tiny"].files["config.json"] = b"{}"
    with refused("pull-damaged", "config.json"):
        pulled(lab)
    hub.wrong.clear()
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    with refused("hub-refused", "HTTP 401"):
        pulled(lab)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(data, "peer_address", lambda facts: "")  # hosts do not reach each other
    done = pulled(lab)
    assert [r.slug or r.state for r in done.recaps] == [
        "source-host-unreached", Recap.CHANGED, "source-host-unreached",
    ]  # fmt: skip
    hub.busy, hub.after = 99, "0"
    with refused("pull-failed", "429"):
        pulled(lab)


def test_a_full_disk_is_the_failure_of_its_host(away) -> None:
    lab, hub = away
    hub.repos["models", "acme/tiny"].files["b.bin"] = os.urandom(16 << 20)
    full = root(lab, "node03").parent / "full"
    with full.open("wb") as out:
        stats = os.statvfs(full.parent)
        os.posix_fallocate(out.fileno(), 0, stats.f_bavail * stats.f_frsize - (80 << 20))
    done = pulled(lab)
    assert states(done) == [Recap.CHANGED, Recap.CHANGED, Recap.FAILED]
    assert done.recaps[2].slug == "no-space"
    full.unlink()
    hub.repos["models", "acme/tiny"].files["c.bin"] = os.urandom(200 << 20)
    done = pulled(lab)
    assert done.recaps[1].slug == "no-space", done.recaps
    assert [r.slug for r in done.recaps if r.slug != "no-space"] == ["source-host-unreached"]


def test_a_file_at_an_address_and_what_hosts_cannot_read(away, tmp_path: Path) -> None:
    lab, hub = away
    right = hashlib.sha256(LARGE).hexdigest()
    address = f"{hub.url}/plain/sub/model.bin"
    for source, fetched in ((address, SIZE), (address, 0), (f"{address}#sha256={right}", 0)):
        done = pulled(lab, f"{source}")
        assert (done.exit_code, done.fetched) == (0, fetched), done.recaps
    assert (root(lab, "node03") / "data/model.bin/current/files/model.bin").read_bytes() == LARGE
    step = f"{{pull: '{address}', name: again, from: node02, include: ['*.bin']}}"
    (tmp_path / "p.yaml").write_text(f"steps:\n  - data: {step}\n")
    on = ("-f", str(lab.hostfile), "--ssh-config", str(lab.ssh_config), "--json")
    for more, summary in ((["--check"], "would change"), ([], "changed"), (["--check"], "ok")):
        played = ipexctl("play", str(tmp_path / "p.yaml"), *on, *more)
        steps = json.loads(played.stdout)["plays"][0]["steps"]
        assert [s["state"] for s in steps] == [summary] * 3, played.stdout
    with refused("source-not-from-host"):
        pulled(lab, "s3://bucket/set")
    with refused("pull-failed", "404"):
        pulled(lab, f"{hub.url}/nothing")
    with refused("host-unknown", "node09"):
        pull(
            Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config),
            Pull("hf:acme/tiny", via="node09"), Progress(),
        )  # fmt: skip
