"""install --rollback, env ls, env rm: with stand-in wheels, made-up roots, and hosts over SSH."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from stat import S_ISDIR

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.common.env_answers import EnvUser, ProjectEnv
from ipexctl.common.removal_answers import EnvKept, EnvsKept
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_orders import RankOrder
from ipexctl.env.env import EnvListing
from ipexctl.env.env_text import kept_text
from ipexctl.errors import HostFailed
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.machines.agent import Agent
from ipexctl.remote.run_files import needed_envs, queued_runs
from ipexctl.stack.env_list import HostEnvs, not_back, way_back
from ipexctl.terminal.confirm import DECLINED
from tests.install.conftest import Builder, Outcome, Shop, make_wheel
from tests.install.test_forecast import answered
from tests.made import start_order
from tests.refused import refused

A, B, C = "a" * 16, "b" * 16, "c" * 16
TORCH = "torch-2.13.0+cpu-py3-none-any.whl"


def rollback(shop: Shop, *words: str) -> Outcome:
    return shop.ipexctl("install", "--rollback", "--json", *words)


def links(root: Path) -> tuple[str, str]:
    there = ((root / name) for name in ("current", "previous"))
    current, previous = (os.path.basename(p.readlink()) if p.is_symlink() else "" for p in there)
    return current, previous


def made_up(root: Path, *keys: str, current: str = "", previous: str = "") -> Path:
    """A root with environments of one file each, and a blob for each of them."""
    root.mkdir(mode=0o700)
    for key in keys:
        env, sha = root / "envs" / key, key[0] * 64
        site = env / "lib" / "python3.11" / "site-packages"
        (site / "torch-2.13.0+cpu.dist-info").mkdir(parents=True)
        (env / "file").write_bytes(bytes(1 << 20))
        mark = {"wheels": [TORCH], "blobs": [sha]}
        (env / ".ipexctl-ok").write_text(json.dumps(mark))
        (env / ".ipexctl-proved").write_text("{}")
        blob(root, sha)
    for name, key in (("current", current), ("previous", previous)):
        if key:
            (root / name).symlink_to(f"envs/{key}")
    return root


def blob(root: Path, sha: str, *, age: float = 7200) -> Path:
    path = root / "blobs" / "sha256" / sha[:2] / sha
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(1000))
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_rollback_goes_back_and_forth_and_the_environments_still_work(shop: Shop) -> None:
    shop.install()
    first = os.path.basename(shop.current)
    (shop.work / "ipexctl.lock").unlink()
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    shop.install()
    second = os.path.basename(shop.current)
    assert links(shop.root) == (second, first)
    for now, before in ((first, second), (second, first)):
        back = rollback(shop, "--root", str(shop.root))
        assert (back.code, back.states) == (0, ["changed"]), back.err
        assert links(shop.root) == (now, before)
        assert re.findall(r"[0-9a-f]{16}|torch [^;, ]+", back.detail) == [
            now, "torch 2.13.0+cpu", before,
        ]  # fmt: skip
        python = shop.root / "current" / "bin" / "python"
        assert subprocess.run([python, "-c", "import torch"], timeout=60).returncode == 0
    assert shop.install().states == ["ok"]


def test_without_a_previous_environment_rollback_is_refused(shop: Shop) -> None:
    for root, stays in ((shop.root, ""), (made_up(shop.folder / "one", A, current=A), A)):
        back = rollback(shop, "--root", str(root))
        assert (back.code, back.states) == (1, ["failed"])
        assert "there is no previous environment" in back.detail
        assert links(root) == (stays, "")
    assert not shop.root.exists()


def test_a_rehearsed_rollback_changes_nothing(shop: Shop) -> None:
    root = made_up(shop.folder / "two", A, B, current=B, previous=A)
    back = rollback(shop, "--root", str(root), "--check")
    assert (back.states, back.detail) == (
        ["changed"], f"would use {A}, torch 2.13.0+cpu; before: {B}",
    )  # fmt: skip
    assert links(root) == (B, A)


def test_rollback_does_not_go_with_the_choice_of_a_stack(shop: Shop) -> None:
    refused = shop.ipexctl("install", "--rollback", "--torch", "2.12")
    assert (refused.code, refused.slug) == (2, "options-conflict")


def test_ls_names_every_environment_and_makes_nothing(shop: Shop) -> None:
    root = made_up(shop.folder / "three", A, B, C, current=B, previous=A)
    (root / "envs" / C / ".ipexctl-ok").unlink()
    listed = shop.ipexctl("env", "ls", "--root", str(root))
    assert listed.code == 0, listed.err
    head, *lines, _, remove = listed.out.splitlines()
    assert f" 3 environments in {root}, " in head and "3.2 MB" in head and "3.0 kB" in head, head
    assert remove.startswith(f"ipexctl env rm --root {root} --unused")
    lines, marks = lines[::2], lines[1::2]
    assert [mark.endswith("project unknown") for mark in marks] == [True] * 3
    assert [line.split() for line in lines] == [
        [A, "previous", "tested", "1.1", "MB", "torch", "2.13.0+cpu"],
        [B, "current", "tested", "1.1", "MB", "torch", "2.13.0+cpu"],
        [C, "unused", "incomplete", "1.1", "MB"],
    ]
    nothing = shop.ipexctl("env", "ls", "--root", str(shop.root))
    assert (nothing.code, "no environments" in nothing.out) == (0, True)
    assert not shop.root.exists()


def test_rm_unused_removes_all_but_current_and_previous_and_their_wheels(shop: Shop) -> None:
    root = made_up(shop.folder / "four", A, B, C, current=B, previous=A)
    young = blob(root, "d" * 64, age=60)
    old = blob(root, "e" * 64)
    asked = ("env", "rm", "--unused", "--root", str(root), "--json")
    would = shop.ipexctl(*asked, "--check").document
    assert (would["done"], sorted(os.listdir(root / "envs"))) == (False, [A, B, C])
    done = shop.ipexctl(*asked, "-y").document
    assert done["hosts"] == would["hosts"]
    assert [e["key"] for e in done["hosts"][0]["environments"]] == [C]
    assert done["hosts"][0]["blobs"] == 2
    assert sorted(os.listdir(root / "envs")) == [".lock", A, B]
    left = sorted(p.name for p in (root / "blobs/sha256").rglob("*") if p.is_file())
    assert left == [A[0] * 64, B[0] * 64, young.name]
    assert not old.exists()


def test_the_environment_of_a_run_that_may_start_again_stays(shop: Shop) -> None:
    """Between two attempts and on a spare: its keeper holds the lock, and no process uses it."""
    root = made_up(shop.folder / "five", A, B, current=B)
    run = root / "runs" / "20261129-120000-abcdef"
    run.mkdir(parents=True)
    python = RankOrder(0, 0, [], None, {}, [f"{root}/envs/{A}/bin/python3", "train.py"])
    about = RunAbout(name="bert", by="ann@desk")
    order = start_order(host="node01", ranks=[python], about=about)
    needed_envs.note_needed_env(str(run), order)
    words = ("env", "rm", "--unused", "--root", str(root), "-y", "--json")
    with open(run / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        (kept,) = shop.ipexctl(*words).document["hosts"][0]["kept"]
        name = f"run bert ({run.name}) of ann@desk"
        assert kept == {"key": A, "why": f"{name} needs it for its next attempt"}
    queued_runs.keep_order(str(run), order)  # after a reboot, before it waits again
    (kept,) = shop.ipexctl(*words).document["hosts"][0]["kept"]
    assert kept == {"key": A, "why": f"{name} is queued and will run in it"}
    queued_runs.forget_order(str(run), "node01")
    assert shop.ipexctl(*words).document["hosts"][0]["environments"][0]["key"] == A
    assert not (root / "envs" / A).exists()


def on_disk(root: Path) -> int:
    infos = [p.lstat() for p in root.rglob("*")]
    return sum({i.st_ino: i.st_blocks * 512 for i in infos if not S_ISDIR(i.st_mode)}.values())


def test_ls_counts_a_shared_file_once_and_names_what_was_requested(builder: Builder) -> None:
    shop, root = builder.shop, builder.shop.root
    shared = make_wheel(shop.wheels, "shared", "1.0", {"shared.py": b"#" * (1 << 20)})
    for key in (A, B):
        own = make_wheel(shop.wheels, "own", f"1.{ord(key[0])}", {"own.py": b"#" * (1 << 18)})
        builder.build(key, shared, own)
    packages = [[f"p{i}", f"1.{i}"] for i in range(8)]
    (builder.env(A) / ".ipexctl-proved").write_text(json.dumps({"requested": packages}))
    (host,) = shop.ipexctl("env", "ls", "--root", str(root), "--json").document["hosts"]
    one, other = host["environments"]
    assert host["environment_bytes"] == on_disk(root / "envs")
    assert one["shared_bytes"] == other["shared_bytes"] >= 1 << 20
    assert one["bytes"] + other["bytes"] - one["shared_bytes"] == host["environment_bytes"]
    assert one["requested"][1] == {"package": "p1", "version": "1.1"}
    assert (len(one["requested"]), other["requested"]) == (8, [])
    text = shop.ipexctl("env", "ls", "--root", str(root)).out
    assert sum("1.1 MB" in line and "shared" in line for line in text.splitlines()) == 2, text
    assert (
        text.count("\n    requested: p0 1.0, p1 1.1, p2 1.2, p3 1.3, p4 1.4, p5 1.5 and 2 more\n")
        == 1
    )


def test_rm_tells_what_is_freed_where_environments_share_their_files(builder: Builder) -> None:
    shop, root = builder.shop, builder.shop.root
    shared = make_wheel(shop.wheels, "shared", "1.0", {"shared.py": b"#" * (1 << 20)})
    for key in (A, B, C):
        own = make_wheel(shop.wheels, "own", f"1.{ord(key[0])}", {"own.py": b"#" * (1 << 18)})
        builder.build(key, shared, own)
    (root / "current").symlink_to(f"envs/{C}")
    for keys, least, most in (([A], 1 << 18, 1 << 20), ([B], 1 << 18, 1 << 20)):
        before = on_disk(root)
        asked = ("env", "rm", *keys, "--root", str(root), "--json")
        (would,) = shop.ipexctl(*asked, "--check").document["hosts"]
        assert on_disk(root) == before
        (done,) = shop.ipexctl(*asked, "-y").document["hosts"]
        assert done == would
        assert done["bytes"] == before - on_disk(root)
        assert least < done["bytes"] < most
        assert not builder.cache.exists()
    assert builder.says(C, "import shared, own; print(1)") == "1"


def test_rm_keeps_current_and_previous_and_what_a_process_runs_in(shop: Shop) -> None:
    root = made_up(shop.folder / "five", A, B, C, current=B, previous=A)
    program = root / "envs" / C / "program"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o700)
    running = subprocess.Popen([program, "600"])
    try:
        done = shop.ipexctl("env", "rm", A, B, C, "--root", str(root), "-y", "--json").document
    finally:
        running.kill()
        running.wait()
    stays = {kept["key"]: kept["why"] for kept in done["hosts"][0]["kept"]}
    words = {A: "previous", B: "current", C: f"process {running.pid} "}
    assert [word in stays[key] for key, word in words.items()] == [True] * 3
    assert sorted(os.listdir(root / "envs")) == [A, B, C]
    refused = shop.ipexctl("env", "rm", B, "--root", str(root), "-y", "--json").document
    assert (refused["done"], [kept["key"] for kept in refused["hosts"][0]["kept"]]) == (False, [B])
    assert shop.ipexctl("env", "rm", C, "--root", str(root), "-y").code == 0
    assert sorted(os.listdir(root / "envs")) == [".lock", A, B]


REFUSED = [
    ((), "env-missing"),
    ((A, "--unused", "-y"), "env-missing"),
    (("../..", "-y"), "env-key-invalid"),
    ((C, "-y"), "env-unknown"),
]


@pytest.mark.parametrize(("words", "slug"), REFUSED)
def test_rm_refuses_what_is_not_clear(shop: Shop, words: tuple[str, ...], slug: str) -> None:
    root = made_up(shop.folder / "six", A, B, current=B)
    refused = shop.ipexctl("env", "rm", *words, "--root", str(root))
    assert (refused.code, refused.slug) == (2, slug), refused.err
    unasked = shop.ipexctl("env", "rm", A, "--root", str(root))
    assert (unasked.code, "--yes" in unasked.err) == (2, True), unasked.err
    assert sorted(p for p in os.listdir(root / "envs") if p != ".lock") == [A, B]


def test_rm_asks_with_a_plan_and_a_no_ends_with_1(shop: Shop) -> None:
    root = made_up(shop.folder / "asked", A, B, current=B)
    done = answered(shop, b"n\n", "env", "rm", A, root=root)
    assert (done.returncode, done.stdout) == (1, f"{DECLINED}\n")
    plan = done.stderr
    assert [word in plan for word in (f" in {root}; {B} ", f"\n  {A} ")] == [True] * 2
    assert sorted(p for p in os.listdir(root / "envs") if p != ".lock") == [A, B]
    would = shop.ipexctl("env", "rm", A, "--root", str(root), "--check", "--json").document
    assert (would["exit_code"], would["declined"], would["hosts"][0]["current"]) == (0, False, B)


@pytest.mark.parametrize(
    ("op", "asked"),
    [
        ("install.environments.switch", lambda key: {"key": key}),
        ("remove.root_upkeep.remove", lambda key: {"keys": [key], "check": False}),
    ],
)
def test_the_agent_refuses_hostile_keys(agent: Agent, tmp_path: Path, op: str, asked) -> None:
    root = made_up(tmp_path / "root", A, current=A)
    (tmp_path / "precious").mkdir()
    for key in ("../../precious", "../" + A, "", A + "\n", ".lock"):
        with pytest.raises(HostFailed) as refused:
            agent.call(op, {"root": str(root), **asked(key)})
        assert refused.value.slug == "env-key-invalid"
    assert (tmp_path / "precious").exists()


def test_current_is_whole_at_every_moment_of_a_rollback(agent: Agent, tmp_path: Path) -> None:
    root = made_up(tmp_path / "root", A, B, current=B, previous=A)
    seen, over = set(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.add((root / "current" / ".ipexctl-ok").exists())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for key in (A, B) * 10:
            header = {"root": str(root), "key": key}
            assert agent.call("install.environments.switch", header).done["changed"]
            assert links(root) == (key, B if key == A else A)
    finally:
        over.set()
        watcher.join()
    assert seen == {True}


def test_what_goes_while_a_switch_waits_for_the_lock_does_not_become_current(
    agent: Agent, tmp_path: Path
) -> None:
    """`env rm` holds the lock, and removes what another install is about to switch to."""
    root = made_up(tmp_path / "root", A, B, current=A)
    lock = os.open(root / "envs" / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    waits, said = threading.Event(), []

    def switch() -> None:
        try:
            header = {"root": str(root), "key": B}
            agent.call("install.environments.switch", header, on_event=lambda frame: waits.set())
        except HostFailed as e:
            said.append((e.slug, B in e.what))

    switching = threading.Thread(target=switch)
    switching.start()
    assert waits.wait(20)
    shutil.rmtree(root / "envs" / B)
    os.close(lock)
    switching.join(20)
    assert said == [("env-gone", True)]
    assert links(root) == (A, "")


def test_what_was_not_proved_does_not_become_current(agent: Agent, tmp_path: Path) -> None:
    root = made_up(tmp_path / "root", A, B, current=A)
    (root / "envs" / B / ".ipexctl-proved").unlink()
    with pytest.raises(HostFailed) as refused:
        agent.call("install.environments.switch", {"root": str(root), "key": B})
    assert refused.value.slug == "env-gone"
    assert links(root) == (A, "")


def kept(key: str, whole: bool = True) -> EnvKept:
    return EnvKept(key, whole, True, 1, 0, [], [], "", "", [], [])


def on_host(current: str, previous: str, *broken: str) -> HostEnvs:
    names = [key for key in (current, previous) if key]
    envs = [kept(key, key not in broken) for key in names]
    found = EnvsKept("/r", current or None, previous or None, envs)
    return HostEnvs("a", found)


@pytest.mark.parametrize("odd", ["../../x", "", "x; rm -rf ~", "0123456789ABCDEF", A[:15]])
def test_an_environment_has_a_name_that_ipexctl_made(odd: str) -> None:
    """It becomes a part of paths and commands."""
    whole = {"root": "/r", "current": A, "envs": [kept(A).document()]}
    assert Answer("n1", whole).read(EnvsKept).envs == [kept(A)]
    for answer in ({"envs": [{**kept(A).document(), "key": odd}]}, {"current": odd}):
        with refused("agent-reply-invalid", "n1: ", "'envs'" if "envs" in answer else "'current'"):
            Answer("n1", {**whole, **answer}).read(EnvsKept)


def test_who_asked_for_an_environment_is_said_in_words() -> None:
    user = EnvUser(ProjectEnv("1", "bert", "ann@desk"), "2026-01-01T00:00:00Z", "2026-02-03T04:05Z")
    found = EnvsKept("/r", A, None, [kept(A).replace(users=[user])])
    listing = EnvListing((HostEnvs("n1", found),), (), EnvChoice(ProjectEnv("", "", "")))
    assert "    bert (ann@desk), last used 2026-02-03" in kept_text(listing).splitlines()


# hosts, where they go back to, and which can
WAYS = [
    ([on_host(B, A), on_host(B, A)], A, [True, True]),
    # the last install failed on one host: it is on A already
    ([on_host(A, C), on_host(B, A), on_host(B, A)], A, [True, True, True]),
    ([on_host(B, A), on_host(B, "")], A, [True, False]),
    ([on_host(B, A), on_host(B, A, A)], A, [True, False]),
    ([on_host(B, A, A)], "", [False]),
    ([on_host(A, A)], "", [False]),
    ([on_host("", "")], "", [False]),
    ([], "", []),
]  # fmt: skip


@pytest.mark.parametrize(("all_hosts", "key", "can"), WAYS)
def test_all_hosts_go_back_to_one_environment(
    all_hosts: list[HostEnvs], key: str, can: list[bool]
) -> None:
    assert way_back(all_hosts) == key
    assert [not not_back(s, key) for s in all_hosts] == can


MAKE = """
set -e
r=~trainer/upkeep; mkdir -m 700 -p $r/envs/{a} $r/envs/{b}
for e in {a} {b}; do echo '{{"wheels": ["{torch}"], "blobs": []}}' > $r/envs/$e/.ipexctl-ok; done
for e in {a} {b}; do echo '{{}}' > $r/envs/$e/.ipexctl-proved; done
ln -s envs/{b} $r/current; ln -s envs/{a} $r/previous
"""


@pytest.mark.lab
def test_rollback_over_ssh_on_all_hosts_at_once(shop: Shop, lab3) -> None:
    script = MAKE.format(a=A, b=B, torch=TORCH)
    where = ["-f", str(lab3.hostfile), "-F", str(lab3.ssh_config), "--root", "~/upkeep"]
    try:
        for host in lab3.hosts:
            assert lab3.run_in(host, ["sh", "-c", script], user="trainer").returncode == 0
        back = shop.ipexctl("install", "--rollback", "--json", *where)
        assert (back.code, back.states) == (0, ["changed"] * 3), back.err
        listed = shop.ipexctl("env", "ls", *where).out.splitlines()
        assert listed[0].startswith("node[01-03]: 2 environments in /home/trainer/upkeep")
        assert [line.split()[:2] for line in listed[1::2]] == [[A, "current"], [B, "previous"]]
    finally:
        for host in lab3.hosts:
            lab3.run_in(host, ["sh", "-c", "rm -rf ~trainer/upkeep"])


def test_rm_asks_nothing_where_nothing_would_go(shop: Shop) -> None:
    root = made_up(shop.folder / "two", A, B, current=B, previous=A)
    done = shop.ipexctl("env", "rm", "--unused", "--root", str(root))
    assert (done.code, done.slug) == (0, ""), done.err
