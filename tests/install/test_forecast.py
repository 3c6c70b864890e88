"""The plan before the question: what it says, that it is right, and what a no does."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.blob import Blob
from ipexctl.base.host_outcome import HostDown
from ipexctl.base.sizes import format_bytes
from ipexctl.common.install_answers import EnvState
from ipexctl.install.command.install_forecast import forecast_document, forecast_text
from ipexctl.install.command.install_text import chosen_text
from ipexctl.install.install import install
from ipexctl.install.install_options import InstallOptions
from ipexctl.install.install_plan import HostInstall, Plan, is_complete
from ipexctl.inventory.inventory import Host
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.machines.target import Target
from ipexctl.packages.resolver import Resolved
from ipexctl.stack.selection import choose_stacks
from ipexctl.stack.version_table import Request
from ipexctl.terminal.confirm import DECLINED
from ipexctl.terminal.progress import HostProgress
from tests.answering_terminal import answering
from tests.install.conftest import Shop, make_wheel
from tests.install.test_choice import ready
from tests.made import env_state
from tests.stack.test_lock import LOCK
from tests.test_wrapping import in_terminal

MB = 1_000_000
FILES = (Blob("torch.whl", "a" * 64, 200 * MB), Blob("numpy.whl", "b" * 64, 20 * MB))
NONE = env_state("/home/ann/.ipexctl")
OLD = NONE.replace(current="0123456789abcdef", packages=[("torch", "2.12.1+cpu")])
BUILT = NONE.replace(built=True, proved=True, current=LOCK.key)
GB = 1000 * MB


def part(name: str, state: EnvState, lacking: tuple[Blob, ...] = FILES, free: int = 9 * GB) -> Any:
    sent = () if state.built else lacking
    whole = is_complete(state, LOCK.key)
    return HostInstall(Host(name), state, whole, lacking=sent, free=free)


def plan(*parts: Any, **changes: Any) -> Plan:
    stack = choose_stacks([ready()], Request(row="torch-2.13"), stack_rows())[0]
    made = Plan(Resolved(stack, LOCK, {}), parts, Path(), new_lock=True, lacking=FILES)
    return replace(made, **changes)


def test_it_says_what_is_fetched_sent_and_needed_and_what_each_host_has() -> None:
    three = plan(part("node1", NONE), part("node2", OLD, free=200 * MB), part("node3", BUILT))
    place = f"/home/ann/.ipexctl/envs/{LOCK.key}"
    needed = format_bytes(220 * MB + 3 * LOCK.size)
    assert forecast_text(three).splitlines() == [
        "packages  2 requested (torch, numpy)",
        "fetch     220.0 MB to this machine",
        "send      220.0 MB to each of 2 hosts; from here once, then from host to host",
        "node1: has no environment",
        f"  to be built, 220.0 MB to send, in {place}",
        f"  disk: about {needed} needed (estimated), 9.0 GB free",
        "node2: has 0123456789abcdef (torch 2.12.1+cpu)",
        f"  to be built, 220.0 MB to send, in {place}",
        f"  disk: about {needed} needed (estimated), 200.0 MB free: may be too little",
        f"node3: has {LOCK.key} already: nothing to do",
    ]


def test_hosts_that_cannot_be_reached_are_said_before_the_question() -> None:
    downs = tuple(HostDown(name, "unreachable", f"{name}: no answer") for name in ("b1", "b2"))
    lines = forecast_text(plan(part("a", NONE), left_out=downs)).splitlines()
    assert lines[-1].startswith("b[1-2]: ") and lines[-1].endswith(": no answer")


def test_what_nobody_knows_is_said_as_unknown() -> None:
    unsized = (FILES[0], Blob("odd.whl", "c" * 64, 0))
    text = forecast_text(plan(part("node1", NONE, unsized), lacking=unsized))
    (fetch,) = (line for line in text.splitlines() if line.startswith("fetch "))
    assert "200.0 MB" in fetch and "1 file of unknown size" in fetch
    needed = 200 * MB + 3 * sum(p.size for p in LOCK.packages)
    assert f"disk: about {format_bytes(needed)} needed (estimated" in text
    document = forecast_document(plan(part("node1", NONE, unsized), lacking=unsized))
    assert document["files_to_fetch_of_unknown_size"] == 1
    (host,) = document["hosts"]
    assert (host["files_to_send_of_unknown_size"], host["disk_bytes_needed"]) == (1, needed)


OTHERS = [
    ({"lacking": ()}, "fetch     nothing: this machine has every file"),
    ({"bundled": True}, "fetch     nothing: everything is in the bundle"),
    ({"relay": False}, "send      220.0 MB to each of 2 hosts"),
]


@pytest.mark.parametrize(("changes", "line"), OTHERS)
def test_another_way_to_fetch_is_another_line(changes: dict[str, Any], line: str) -> None:
    text = forecast_text(plan(part("a", NONE), part("b", NONE), **changes))
    assert line in text.splitlines()


FLEETS = [
    [part(f"node{i:02}", state) for i, state in enumerate((NONE, OLD, BUILT), 1)],
    [part(f"node{i:02}", NONE, free=(9 + i) * GB) for i in range(64)],
    [part(f"node{i:02}", OLD if i % 2 else NONE) for i in range(64)],
    [part(f"node{i:02}.cluster.example.org", NONE.replace(root=f"/r{i}")) for i in range(64)],
]


@pytest.mark.parametrize("parts", FLEETS, ids=["3 hosts", "64", "64 of two kinds", "64 kinds"])
def test_it_fits_a_terminal_with_the_choice_above_and_the_question_below(parts: list[Any]) -> None:
    shown = plan(*parts)
    lines = forecast_text(shown).splitlines()
    assert [line for line in lines if len(line) > 80] == []
    above = sum(-(-len(line) // 80) for line in chosen_text(shown).splitlines())
    assert above + len(lines) + 1 <= 24


def test_equal_hosts_are_one_entry_with_the_least_free() -> None:
    text = forecast_text(plan(*FLEETS[1]))
    assert "node[00-63]: has no environment" in text
    assert "at least 9.0 GB free" in text


# --- with the real command -----------------------------------------------------------------------


def test_check_predicts_the_bytes(shop: Shop) -> None:
    predicted = shop.install("--check").document
    done = shop.install().document
    (host,) = predicted["plan"]["hosts"]
    assert (predicted["plan"]["bytes_to_send"], host["bytes_to_send"]) == (done["bytes_sent"],) * 2
    assert predicted["plan"]["bytes_to_fetch"] == done["bytes_sent"] > 0
    assert (host["today"], host["folder"]) == (None, f"{shop.root}/envs/{done['environment']}")
    assert (host["disk_bytes_free"] > 0, predicted["plan"]["packages_asked"]) == (
        True, ["torch", "numpy"],
    )  # fmt: skip
    again = shop.install("--check", "--rebuild").document["plan"]
    assert (again["bytes_to_fetch"], again["bytes_to_send"]) == (0, 0)
    unpacked = again["hosts"][0]["disk_bytes_needed"]
    assert host["disk_bytes_needed"] == unpacked + done["bytes_sent"] > 0


def answered(
    shop: Shop, said: bytes, *words: str, root: Path | None = None, ahead: bytes = b""
) -> subprocess.CompletedProcess[str]:
    with answering(said, ahead=ahead) as terminal:
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", *words, "--root", str(root or shop.root)],
            cwd=shop.work, env=shop.environ(), stdin=terminal.fd, capture_output=True, text=True,
        )  # fmt: skip


@pytest.mark.parametrize("said", [b"n\n", b"\x04"])
def test_a_no_ends_with_1_and_says_that_nothing_was_changed(shop: Shop, said: bytes) -> None:
    done = answered(shop, said, "install", "--mpi", "none")
    assert (done.returncode, shop.envs(), list(shop.work.iterdir())) == (1, [], [])
    assert done.stdout.splitlines()[-1] == DECLINED
    assert "send      " in done.stderr and done.stderr.rstrip().endswith("Install? [Y/n]")


def test_what_is_neither_yes_nor_no_is_asked_again(shop: Shop) -> None:
    done = answered(shop, b"maybe\nn\n", "install", "--mpi", "none")
    assert (done.returncode, shop.envs()) == (1, [])
    assert done.stderr.count("Install? [Y/n]") == 2
    assert done.stderr.count("packages  ") == 1  # the plan is not shown again


def test_what_was_typed_before_the_question_is_no_answer(shop: Shop) -> None:
    done = answered(shop, b"n\n", "install", "--mpi", "none", ahead=b"y\n")
    assert (done.returncode, shop.envs()) == (1, [])
    assert done.stderr.rstrip().endswith("Install? [Y/n]")


def test_the_wait_at_the_prompt_is_no_time_of_the_install(shop: Shop) -> None:
    waited = 3.0

    def slow(plan: Plan) -> bool:
        time.sleep(waited)  # the answer itself, not a wait for something
        return False

    with pytest.MonkeyPatch.context() as patched:
        for name, value in shop.environ().items():
            patched.setenv(name, value)
        patched.setenv("XDG_STATE_HOME", str(shop.folder / "state"))
        asked = InstallOptions(mpi="none", root=str(shop.root), folder=shop.work)
        began = time.monotonic()
        report = install(Target(), asked, HostProgress(agreed=slow))
    assert report.declined
    assert report.seconds <= time.monotonic() - began - waited


def test_a_rebuild_is_asked_about_with_its_plan(shop: Shop) -> None:
    shop.install()
    before = shop.current
    done = answered(shop, b"n\n", "install", "--mpi", "none", "--rebuild")
    assert (done.returncode, shop.current) == (1, before)
    whole = f"  to be rebuilt, nothing to send, in {shop.root}/{before}"
    assert len(whole) > 80 and whole in done.stderr.splitlines()  # stderr is a pipe
    assert f" {before.removeprefix('envs/')} (torch 2.13.0+cpu)" in done.stderr


def test_without_a_terminal_the_question_is_refused(shop: Shop) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ipexctl", "install", "--mpi", "none", "--root", str(shop.root)],
        cwd=shop.work, env=shop.environ(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, shop.envs()) == (2, [])
    plan, _, refusal = done.stderr.partition("ipexctl: ")
    assert "localhost: " in plan and "--yes" in refusal


def test_without_a_terminal_the_plan_names_the_host_that_cannot_be_reached(shop: Shop) -> None:
    (shop.work / "hosts").write_text("a ansible_connection=local\nnode-with-a-typo.invalid\n")
    done = subprocess.run(
        [sys.executable, "-m", "ipexctl", "install", "-f", "hosts", "--mpi", "none",
         "--root", str(shop.root)],
        cwd=shop.work, env=shop.environ(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, shop.envs()) == (2, [])
    assert "node-with-a-typo.invalid: left out: " in done.stderr


def test_the_plan_and_the_changes_are_folded_between_words_on_a_terminal(shop: Shop) -> None:
    key = shop.install().document["environment"]
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    words = ("--root", str(shop.root), "--mpi", "none", "--check", "--diff", "--upgrade")
    lines = in_terminal("install", *words, folder=shop.work, **shop.environ())
    change = f"localhost: 1 package to change, compared with {key}, which this\n  project uses"
    assert f"{change}\n  numpy 2.0 -> 2.1\n" in "\n".join(lines)
