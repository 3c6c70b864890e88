"""What --level std measures: pure parts, the agent's side here, and links in a lab."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from ipexctl.common.port_answers import PortOpened
from ipexctl.common.speed_answers import HostSpeed, LinkMeasured, LinksMeasured, PacketsCounted
from ipexctl.common.waiting import wait_until
from ipexctl.facts import speed_facts
from ipexctl.facts.speed_facts import (
    MeasuredLink,
    Measurements,
    benchmark_waves,
    onednn_level,
    plan_rounds,
)
from ipexctl.lab import HostSpec, LabSpec
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.remote.facts import read_speed
from tests import made
from tests.agent.test_agent import HERE
from tests.doctor.test_doctor_lab import drop, told
from tests.made import OF_MACHINE
from tests.processes import gone
from tests.refused import refused

# --- which pairs, which hosts --------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 4, 7, 32])
def test_up_to_32_hosts_each_one_sends_once_and_receives_once(count):
    names = [f"n{i}" for i in range(count)]
    pairs = [pair for group in plan_rounds(names) for pair in group]
    assert sorted(a for a, _ in pairs) == sorted(b for _, b in pairs) == sorted(names)
    assert all(a != b for a, b in pairs)


@pytest.mark.parametrize("count", [33, 64, 129, 500])
def test_above_that_each_host_is_in_one_pair_at_most(count):
    pairs = [pair for group in plan_rounds([f"n{i}" for i in range(count)]) for pair in group]
    used = [name for pair in pairs for name in pair]
    assert len(used) == len(set(used))
    assert len(pairs) == min(count // 2, speed_facts.SAMPLED)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 32, 100])
def test_pairs_measured_at_the_same_time_are_few_and_share_no_host(count):
    for group in plan_rounds([f"n{i}" for i in range(count)]):
        assert len(group) <= speed_facts.AT_ONCE
        assert len({name for pair in group for name in pair}) == 2 * len(group)


def test_containers_of_one_machine_compute_one_after_the_other():
    """made.facts gives every host the same boot id."""
    hosts = [made.facts(f"n{i:02d}") for i in range(10)]
    assert benchmark_waves(hosts) == ([[f"n{i:02d}"] for i in range(8)], ["n08", "n09"])


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ("Intel AVX2", "avx2"),
        ("Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions", "avx512"),
        ("Intel AVX-512 with Intel DL Boost", "avx512"),
        ("Intel AVX-512 with Intel DL Boost and bfloat16 support", "avx512-bf16"),
        (
            "Intel AVX-512 with float16, Intel DL Boost and bfloat16 support and Intel AMX with "
            "bfloat16 and 8-bit integer support",
            "amx",
        ),
        ("Intel SSE4.1", "sse"),
        ("", ""),
        ("something new", ""),
    ],
)
def test_onednns_words_are_understood(words, level):
    assert onednn_level(words) == level


def test_a_link_of_which_a_host_says_nothing_has_no_number():
    [link] = speed_facts.links_to("a", ["b"], LinksMeasured([LinkMeasured("c", 0.1, 1e9)]))
    assert link == MeasuredLink("a", "b", error="no answer")


# --- the agent's side ----------------------------------------------------------------------------


def program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def hanging(tmp_path: Path) -> tuple[str, Path]:
    """A "python" that starts a child and never ends; where it writes both process ids."""
    pids = tmp_path / "pids"
    text = f"#!/bin/sh\nsleep 1000 &\necho $$ $! > {pids}.new\nmv {pids}.new {pids}\nwait\n"
    return program(tmp_path / "python", text), pids


def read_pids(pids: Path) -> list[int]:
    wait_until(pids.exists, 20)
    return [int(word) for word in pids.read_text().split()]


def test_a_python_in_a_root_of_another_user_is_not_started(agent, tmp_path):
    if os.getuid():
        pytest.skip("needs root, to give a folder away")
    path, ran = tmp_path / "root" / "current" / "bin" / "python", tmp_path / "ran"
    path.parent.mkdir(parents=True)
    program(path, f"#!/bin/sh\ntouch {ran}\n")
    asked = {"root": str(tmp_path / "root"), "threads": 1}
    agent.call("facts.read_speed.host", asked, timeout=60)
    assert ran.exists(), "the attack itself works"
    ran.unlink()
    os.chown(tmp_path / "root", 65534, 65534)
    with refused("root-of-another-user", 65534):
        agent.call("facts.read_speed.host", asked, timeout=60)
    assert not ran.exists()


def test_a_child_that_hangs_is_ended_with_all_it_started(agent, tmp_path):
    python, pids = hanging(tmp_path)
    done = agent.call("facts.read_speed.host", {"python": python, "timeout": 0.1}, timeout=60).done
    assert speed_facts.host_bench("here", done.read(HostSpeed)).status == "late"
    assert [gone(pid) for pid in read_pids(pids)] == [True, True]


def test_a_child_ends_with_the_agent(tmp_path):
    agent = start_host_agent(LocalTransport(), HERE)
    python, pids = hanging(tmp_path)
    agent.start("facts.read_speed.host", {"python": python, "timeout": 600})
    running = read_pids(pids)
    agent.close()
    assert [gone(pid) for pid in running] == [True, True]


@pytest.mark.parametrize(
    ("torch", "status", "why"),
    [
        ("raise ImportError('libgomp.so.1: cannot open')", "failed", "libgomp.so.1: cannot open"),
        ("import os; os.abort()", "failed", "signal 6"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_told_with_its_words(
    agent, tmp_path, torch, status, why
):
    (tmp_path / "torch.py").write_text(torch)
    there = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); exec(sys.argv[1])"
    # the agent runs PYTHON -I -c TEXT
    python = program(tmp_path / "python", f'#!/bin/sh\nexec python3 -I -c "{there}" "$3"\n')
    done = agent.call("facts.read_speed.host", {"python": python, "timeout": 60}, timeout=60).done
    found = speed_facts.host_bench("here", done.read(HostSpeed))
    assert (found.status, why in found.why) == (status, True), found


# What the child needs of torch, with times in which it soon ends.
STUB = """
import contextlib, time
class Tensor:
    copy_ = lambda self, other: time.sleep(0.001)
class backends:
    class mkldnn:
        verbose = contextlib.nullcontext
ones = empty = lambda *size, dtype=None: Tensor()
mm = lambda a, b: time.sleep(0.005)
set_num_threads = lambda count: None
inference_mode = contextlib.nullcontext
bfloat16 = float32 = None
__version__ = "2.13.0"
"""
# A machine whose page cache holds nearly all memory, which therefore is available and not free.
MEMORY = """
import builtins, io, sys
real, own = open, "MemFree: 1024 kB\\nMemAvailable: {} kB\\n"
builtins.open = lambda path, *a: io.StringIO(own) if path == "/proc/meminfo" else real(path, *a)
sys.path.insert(0, {!r})
exec(sys.argv[1])
"""


@pytest.mark.parametrize(("kib", "measured"), [(2 << 20, True), ((2 << 20) - 1, False)])
def test_a_copy_in_memory_has_its_full_size_or_is_left_out(agent, tmp_path, kib, measured):
    (tmp_path / "torch.py").write_text(STUB)
    (tmp_path / "machine.py").write_text(MEMORY.format(kib, str(tmp_path)))
    python = program(tmp_path / "python", f'#!/bin/sh\nexec python3 {tmp_path}/machine.py "$3"\n')
    done = agent.call("facts.read_speed.host", {"python": python, "timeout": 60}, timeout=60).done
    found = speed_facts.host_bench("here", done.read(HostSpeed))
    assert (found.status, found.copy is not None) == ("ok", measured), found


def test_a_guest_without_the_token_gets_nothing(agent):
    import socket

    port = agent.call("facts.read_speed.serve", {"token": "a" * 32}).done.read(PortOpened).port
    with socket.create_connection(("127.0.0.1", port), 10) as guest:
        guest.settimeout(20)
        guest.sendall(b"b" * 32 + b"p" + b"." * 64)
        with contextlib.suppress(ConnectionResetError):
            assert guest.recv(64) == b""


def test_a_link_to_itself_has_a_latency_and_a_rate(agent):
    port = agent.call("facts.read_speed.serve", {"token": "a" * 32}).done.read(PortOpened).port
    args = {"token": "a" * 32, "targets": [["me", "127.0.0.1", port]], "size": 1 << 22}
    done = agent.call("facts.read_speed.link", {**args, "seconds": 0.3}, timeout=30).done
    [link] = speed_facts.links_to("me", ["me"], done.read(LinksMeasured))
    assert link.error == ""
    assert link.latency and link.rate and link.latency < 5 and link.rate > 1e6


def test_a_port_of_the_range_is_taken_and_closed_on_request(agent):
    import socket

    asked = {"token": "a" * 32, "ports": [42000, 42015]}
    taken = [
        agent.call("facts.read_speed.serve", asked).done.read(PortOpened).port for _ in range(3)
    ]
    assert len({*taken}) == 3 and all(42000 <= port <= 42015 for port in taken)
    for port in taken:
        agent.call("connection.listeners.close", {"port": port})
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)


@pytest.mark.parametrize(
    ("marks", "best"),
    [
        ([], None),
        ([(0.0, 0)], None),
        ([(0.0, 0), (0.1, 1000), (0.2, 1000), (0.3, 1000)], (1000, 0.1)),  # then it stalls
    ],
)
def test_a_rate_is_that_of_the_best_part_of_the_time(marks, best):
    assert read_speed._fastest_third(marks) == best


def test_a_link_to_itself_loses_nothing(agent):
    port = agent.call("facts.read_speed.serve", {"token": "a" * 32}).done.read(PortOpened).port
    args = {"token": "a" * 32, "target": ["127.0.0.1", port]}
    done = agent.call("facts.read_speed.losses", args, timeout=30).done
    found = speed_facts.losses_to("me", "me", done.read(PacketsCounted))
    assert found and found.sent > 100 and found.lost == 0


@pytest.mark.parametrize("counted", [PacketsCounted(), PacketsCounted(0, 0), PacketsCounted(9)])
def test_packets_that_nobody_counted_are_not_lost(counted):
    assert speed_facts.losses_to("a", "b", counted) is None


def test_nobody_there_is_an_error_and_not_a_number(agent):
    args = {"token": "a", "targets": [["x", "127.0.0.1", 1]], "size": 1, "seconds": 0.1}
    done = agent.call("facts.read_speed.link", args, timeout=30).done
    [link] = speed_facts.links_to("me", ["x"], done.read(LinksMeasured))
    assert (link.latency, link.rate) == (None, None)
    assert "refused" in link.error


# --- on real hosts -------------------------------------------------------------------------------


@pytest.mark.lab
def test_links_of_a_lab_are_measured_and_a_slow_one_is_found(make_lab):
    lab = make_lab(LabSpec(name="rate", hosts=(HostSpec(), HostSpec(rate="50mbit"), HostSpec())))
    document = told(lab, "--level", "std")
    rates = {(x["source"], x["target"]): x["rate"] for x in document["measured"]["links"]}
    assert rates.keys() == {("node01", "node02"), ("node02", "node03"), ("node03", "node01")}
    assert all(rate < 60e6 for pair, rate in rates.items() if "node02" in pair), rates
    assert rates["node03", "node01"] > 500e6
    found = [(h["name"], f["id"]) for h in document["hosts"] for f in h["findings"]]
    assert [x for x in found if x[1].startswith("PERF")] == [("node02", "PERF-005")]
    assert document["exit_code"] == 0


@pytest.mark.lab
def test_one_per_cent_of_lost_packets_is_found_and_a_full_queue_is_not_one(full_rung, make_lab):
    """A queue that overflows is how TCP learns what the link carries: node03's link has one.

    What is lost is chosen by the number that each packet gets from its sender, 1/128 + 1/512 of
    them; in a handshake it is 0.
    """
    hosts = (HostSpec(), HostSpec(), HostSpec(rate="50mbit"), HostSpec())
    lab = make_lab(LabSpec(name="loss", hosts=hosts))
    drop(lab, "p1n0", "match u16 0x0055 0x007f at 4", "match u16 0x0101 0x01ff at 4")
    document = told(lab, "--level", "std")
    lost = {(x["source"], x["target"]): x["lost"] for x in document["measured"]["losses"]}
    assert {pair for pair, count in lost.items() if count} == {("node01", "node02")}, lost
    found = [(h["name"], f["id"]) for h in document["hosts"] for f in h["findings"]]
    assert [x for x in found if x[1].startswith("PERF")] == [
        ("node01", "PERF-010"), ("node03", "PERF-005")
    ]  # fmt: skip


@pytest.mark.lab
def test_a_healthy_lab_has_no_failure_and_no_warning_at_std(lab3):
    document = told(lab3, "--level", "std")
    found = [f for h in document["hosts"] for f in h["findings"]] + document["findings"]
    assert [f for f in found if f["severity"] != "note" and f["id"] not in OF_MACHINE] == []
    assert {h["status"] for h in document["measured"]["hosts"]} == {"no-torch"}


@pytest.mark.soak
def test_with_the_real_torch_all_hosts_have_numbers(installed_lab):
    document = told(installed_lab, "--level", "std")
    for host in document["measured"]["hosts"]:
        assert (host["status"], host["fp32"] > 1, host["bf16"] > 0.1) == ("ok", True, True), host
        assert host["onednn"] and host["copy"] > 0.1
    assert document["exit_code"] == 0
    levels = Measurements(links=tuple(MeasuredLink(**x) for x in document["measured"]["links"]))
    assert len(levels.links) == len(installed_lab.hosts)
