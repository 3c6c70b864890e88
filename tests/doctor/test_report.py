"""The report's text and its exit code, from reports made up here."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from ipexctl.base.host_outcome import HostDown
from ipexctl.common.env_answers import EnvUser, ProjectEnv
from ipexctl.doctor.checks import run_all
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Finding, Fix, Severity, command, do
from ipexctl.doctor.report.recommendations import Recommendation, recommend_settings
from ipexctl.doctor.report.report import Report
from ipexctl.doctor_command.report_formats import markdown
from ipexctl.doctor_command.report_text import show_doctor_report
from ipexctl.errors import HostKeyChanged, HostKeyUnknown
from ipexctl.facts.env_choice import EnvChoice, EnvUsed
from ipexctl.facts.facts import Facts
from ipexctl.facts.interfaces_facts import Nic
from ipexctl.facts.software_facts import Current, Prefix, SoftwareFacts
from ipexctl.inventory.inventory import Host
from ipexctl.project.training_script import training_script
from tests import made
from tests.checks.hosts import ROWS
from tests.facts.machines import AMX


def host_facts(name: str, address: str) -> Facts:
    facts = made.facts(name, address=address)
    cpu = replace(facts.cpu, flags=frozenset(AMX.split()))
    return replace(facts, cpu=cpu, net=replace(facts.net, hostname_addresses=(address,)))


def report(*hosts: Facts | HostDown) -> Report:
    facts = tuple(h for h in hosts if isinstance(h, Facts))
    return Report(
        hosts=tuple(Host(h.host) for h in hosts),
        facts=facts,
        down=tuple(h for h in hosts if isinstance(h, HostDown)),
        peers=(),
        findings=run_all(CheckedHosts(facts)),
        seconds=0.5,
        named="-f hosts",
    )


def text(made_report: Report, *, width: int | None = 80, verbose: bool = False) -> str:
    out = io.StringIO()
    show_doctor_report(made_report, out, width=width, verbose=verbose)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_the_next_command_has_the_root_that_was_given():
    given = replace(report(A), root="/scratch/my own")
    assert "next: ipexctl install -f hosts --root '/scratch/my own'\n" in text(given)


def test_a_command_that_is_longer_than_the_line_has_its_label_once():
    lines = text(replace(report(A), root="/scratch/a/very/long/root"), width=40).splitlines()
    assert lines[1:3] == ["next:", "  ipexctl install -f hosts --root /scratch/a/very/long/root"]


INSTALLED = SoftwareFacts((Prefix("/env", "ipexctl", "3.11", ()),))


@pytest.mark.parametrize("script", ["SCRIPT", "my model.py"])
def test_the_next_command_of_hosts_that_are_ready_names_a_script_of_this_folder(script):
    ready = replace(report(replace(A, software=INSTALLED)), findings=(), script=script)
    quoted = "'my model.py'" if " " in script else script
    assert f"next: ipexctl run -f hosts {quoted}\n" in text(ready)


def test_the_next_command_installs_the_requirements_of_a_folder_without_a_lock():
    for software in (None, INSTALLED):
        made = replace(report(replace(A, software=software)), findings=())
        made = replace(made, requirements="requirements.txt")
        assert "next: ipexctl install -f hosts -r requirements.txt\n" in text(made)


@pytest.mark.parametrize(
    ("users", "key", "named"),
    [
        (["other"], "", True),
        (["other", "mine"], "", False),
        (["other"], "0" * 16, False),
        ([], "", False),
    ],
)
def test_the_environment_of_another_project_is_named(users, key, named):
    rows = tuple(EnvUser(ProjectEnv(name, name, "me@here"), "", "") for name in users)
    current = Current("/env", True, True, environment=EnvUsed("a" * 16, users=rows))
    ready = report(replace(A, software=replace(INSTALLED, current=current)))
    choice = EnvChoice(ProjectEnv("mine", "here", "me@here"), key, "/x/ipexctl.lock" if key else "")
    (line,) = [t for t in text(replace(ready, findings=(), env=choice)).splitlines() if "next" in t]
    assert ("project other" in line) is named


@pytest.mark.parametrize(
    ("files", "script"),
    [
        ({}, "SCRIPT"),
        ({"setup.py": "import setuptools"}, "SCRIPT"),
        ({"fit.py": "import os\nfrom torch import nn\n", "tools.py": "import json"}, "fit.py"),
        ({"a.py": "import torch", "train.py": "import torch.nn", "b.py": ""}, "train.py"),
        ({"a.py": "import torch", "b.py": "import torch"}, "SCRIPT"),
        ({"train.py": "import torchvision_of_mine"}, "train.py"),
        ({"fit.py": "import torchvision_of_mine"}, "SCRIPT"),
    ],
)
def test_the_script_that_is_suggested_is_in_the_folder(tmp_path, files, script):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert training_script(tmp_path) == script


COMMANDS = ("  fix ", "do this ")
A, B, C = (host_facts(f"node{i:02d}", f"10.0.0.{i}") for i in (1, 2, 3))
NO_PYTHON = replace(B, pythons=(), os_ids=("debian",))
DOWN = HostDown(
    "node03", "unreachable", "node03: no route", "errno 113", "ping node03", unreachable=True
)


def test_the_table_shows_the_memory_that_the_control_group_leaves():
    limited = replace(B, mem=replace(B.mem, limit=4 << 30))
    rows = text(report(A, limited)).splitlines()
    assert [("4 GiB" in line, "16 GiB" in line) for line in rows if "amx" in line] == [
        (False, True),
        (True, False),
    ]


def test_equal_hosts_are_one_row():
    assert text(report(A, B, C)) == (
        "3 of 3 hosts ready · 0.5 s\n"
        "next: ipexctl install -f hosts\n"
        "\n"
        "host         state  isa  cores  memory  python  address       nic   cpu\n"
        "node[01-03]  ok     amx      4  16 GiB  3.11    10.0.0.[1-3]  eth0  Made"
    )


def test_the_host_that_differs_stands_below_the_others():
    odd = replace(A, cpu=replace(A.cpu, cpus=A.cpu.cpus[:2]))
    lines = text(report(odd, B, C)).splitlines()
    assert [line.split()[:4] for line in lines[4:6]] == [
        ["node[02-03]", "ok", "amx", "4"],
        ["node01", "ok", "amx", "2"],
    ]


def test_memory_that_differs_by_what_the_kernel_keeps_is_the_same():
    near = replace(B, mem=replace(B.mem, total=A.mem.total * 101 // 100))
    far = replace(C, mem=replace(C.mem, total=A.mem.total * 2))
    rows = [line.split()[:6] for line in text(report(A, near, far)).splitlines()[4:6]]
    assert [(row[0], row[4]) for row in rows] == [("node[01-02]", "16"), ("node03", "32")]


@pytest.mark.parametrize(
    ("width", "last"), [(40, "memory"), (60, "nic"), (80, "cpu"), (200, "system"), (None, "system")]
)
def test_columns_go_when_there_is_no_room_for_them(width, last):
    assert text(report(A), width=width).splitlines()[3].split()[-1] == last


def test_each_trouble_is_told_once_with_its_hosts_and_its_command():
    shown = text(report(A, NO_PYTHON, DOWN))
    head, fix = shown.splitlines()[:2]
    assert head == "1 of 3 hosts ready · 1 unreachable · 1 failed · 0.5 s"
    assert fix == "do this on node02: sudo apt-get install -y python3 python3-venv"
    assert shown.partition("\n\n")[2].partition("\n\n")[2] == (
        "unreachable  node03: no route\n"
        "  why errno 113\n"
        "  fix ping node03\n"
        "\n"
        "fail PY-001  node02: no Python 3\n"
        "  seen not in PATH, /usr/bin, /usr/local/bin, /opt/*/bin, ~/.pyenv or conda\n"
        "  fix sudo apt-get install -y python3 python3-venv"
    )


def test_why_is_told_when_asked():
    (finding,) = report(NO_PYTHON).findings
    assert f"  why {finding.why}" in text(report(NO_PYTHON), verbose=True)
    assert finding.why not in text(report(NO_PYTHON))


def test_all_unknown_keys_are_one_message_with_one_command():
    down = [
        HostDown(n, "host-key-unknown", f"{n}: unknown", f"ssh-ed25519 SHA256:{n}", f"trust {n}")
        for n in ("node02", "node03")
    ]
    shown = text(report(A, *down))
    assert shown.splitlines()[1] == "do this: ipexctl trust -f hosts"
    assert shown.partition("\n\n")[2].partition("\n\n")[2] == (
        "unreachable  node[02-03]: their host keys are not trusted yet\n"
        "  key node02: ssh-ed25519 SHA256:node02\n"
        "  key node03: ssh-ed25519 SHA256:node03\n"
        "  fix ipexctl trust -f hosts   (compare the fingerprints first)"
    )


def test_hosts_that_are_gone_for_the_same_reason_are_one_message():
    down = [
        HostDown(n, "unreachable", f"{n}: refused", "", f"ping {n}", True)
        for n in ("node02", "node03")
    ]
    shown = text(report(A, *down))
    assert shown.count("node[02-03]: refused\n") == 1
    assert "do this: ping node02   # then for node03\n" in shown
    assert "  fix ping node02\n  fix ping node03" in shown


def test_hosts_that_are_gone_at_their_own_addresses_are_one_message():
    down = [
        HostDown(
            n, "unreachable", f"{n}: {a} port 22 refused it", f"asked {a}", f"on {n}: ss -tln", True
        )
        for n, a in (("node02", "10.0.0.2"), ("node03", "10.0.0.3"), ("node04", "fd00::4"))
    ]
    shown = text(report(A, *down))
    assert shown.count("\nunreachable  ") == 1
    assert "unreachable  node[02-04]: … port 22 refused it\n" in shown
    assert "\ndo this: on node02: ss -tln   # then for node[03-04]\n" in shown


def test_a_finding_about_the_cluster_names_the_hosts_that_were_looked_at():
    together = Finding("HOST-002", Severity.WARN, "", "one machine", "seen", "why", do("x"))
    down = HostDown("c", "unreachable", "c: no answer", unreachable=True)
    for others, names in (((), "all hosts"), ((down,), "node[01-02]")):
        made_report = replace(report(A, B, *others), findings=(together,))
        (line,) = (t for t in text(made_report).splitlines() if "HOST-002" in t)
        assert line.startswith("warn") and f" {names}: one machine" in line
        assert f"one machine ({names})" in markdown(made_report).replace("\\", "")


def test_hosts_that_cannot_train_together_are_not_called_good():
    arm = replace(B, cpu=replace(B.cpu, arch="aarch64", flags=frozenset({"asimd"})))
    first = text(report(A, arm)).splitlines()[0]
    assert first.startswith("2 of 2 ") and ", but " in first


@pytest.mark.parametrize(
    ("width", "end"), [(80, " · 0.5 s"), (36, "1 warning"), (None, " · 0.5 s")], ids=str
)
def test_the_verdict_is_one_line_on_any_terminal(width, end):
    warn = Finding("W-001", Severity.WARN, "node01", "t", "e", "w", do(command("sysctl repair")))
    lines = text(replace(report(A), findings=(warn,)), width=width).splitlines()
    assert lines[0].startswith("1 of 1 ") and " 1 warning" in lines[0]
    assert lines[0].endswith(end)
    assert lines[1].endswith(" node01: sysctl repair")


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (80, "use  node[01-03]: torch 2.13.0 · bf16 · 1 rank × 4 threads"),
        (None, "use  node[01-03]: torch 2.13.0 · Python 3.11 · bf16 · 1 rank × 4 threads per host"),
    ],
)
def test_equal_hosts_get_one_line_of_advice(width, words):
    advice = Recommendation(
        ("node01", "node02", "node03"), "row", "torch 2.13.0", "3.11", "bf16", 1, 4, ("AMX", "x")
    )
    lines = text(replace(report(A, B, C), recommendations=(advice,)), width=width).splitlines()
    assert lines[6:8] == [words, "  AMX"]


@pytest.mark.parametrize("width", [80, None])
def test_the_generation_of_the_processors_is_shown(width):
    """In 80 columns the table has no room for the processor: the advice names it."""
    cpu = replace(A.cpu, model=143, stepping=8, model_name="Intel(R) Xeon(R) Platinum 8480+")
    facts = replace(A, cpu=cpu)
    shown = text(
        replace(
            report(facts), recommendations=recommend_settings(CheckedHosts((facts,), rows=ROWS))
        ),
        width=width,
    )
    assert "  Sapphire Rapids · bf16: AMX " in shown
    assert ("Xeon Platinum 8480+, Sapphire Rapids" in shown) is (width is None)
    assert max(map(len, shown.splitlines())) <= (width or 1000)


def test_links_are_shown_when_asked():
    def known(facts: Facts, number: int) -> Facts:
        nics = (Nic("eth0", True, 1500, (f"10.0.0.{number}",), 25000, "full"),)
        return replace(facts, net=replace(facts.net, nics=nics))

    both = report(known(A, 1), known(B, 2))
    line = "  link node[01-02]: eth0, 25 Gbit/s"
    assert line in text(both, verbose=True).splitlines() and line not in text(both)


def test_notes_are_one_line_each_and_few():
    notes = (warn(f"NOTE-{i:03d}", "node01", "e", severity=Severity.NOTE) for i in range(1, 17))
    many = replace(report(A), findings=tuple(notes))
    assert text(many).splitlines()[-5:] == [
        "note NOTE-001  node01  title of NOTE-001",
        "note NOTE-002  node01  title of NOTE-002",
        "note NOTE-003  node01  title of NOTE-003",
        "note NOTE-004  node01  title of NOTE-004",
        "… and 12 more notes: -v   (NOTE-005, NOTE-006, NOTE-007, NOTE-008, NOTE-009, NO…",
    ]
    assert text(many, verbose=True).count("\nnote NOTE-") == 16


@pytest.mark.parametrize("width", [80, 200, None])
def test_two_hundred_hosts_with_many_troubles_are_one_screenful(width):
    """Names that fold badly, all different hosts, and ten kinds of warnings."""
    hosts = [host_facts(f"h{i * 7919 % 10007}-{i}x", f"10.1.{i}.1") for i in range(200)]
    hosts = [
        replace(h, cpu=replace(h.cpu, cpus=h.cpu.cpus[: 1 + i % 4]), os_name=f"Linux {i % 40}")
        for i, h in enumerate(hosts)
    ]
    warns = [
        Finding(f"W-{k:03d}", Severity.WARN, h.host, f"title {k}", f"seen {h.host}", "w", do("f"))
        for k in range(10)
        for h in hosts[k::3]
    ]
    shown = text(replace(report(*hosts), findings=tuple(warns)), width=width)
    assert len(shown.splitlines()) < 80
    assert "more hosts in" in shown and "… and 2 more warnings: -v" in shown


def warn(
    number: str, host: str, seen: str, fix: Fix | str = "f", severity: Severity = Severity.WARN
):
    made = fix if isinstance(fix, Fix) else do(fix)
    return Finding(number, severity, host, f"title of {number}", seen, "w", made)


NAMES = [f"node{i:02d}" for i in range(1, 65)]


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize(
    ("seen", "fix", "most"),
    [
        ("the same", "f", 3),
        ("{n} GiB of 64 GiB", "f", 5),
        ("{host} is full", "f", 5),
        ("{n} files, {n} links", "f", 7),
        ("the same", "sudoedit /etc/hosts   # 10.0.0.{n} {host}", 5),
        ("the same", "rm /x\nor {n}", 7),
    ],
)
def test_one_problem_of_64_hosts_is_one_short_block(width, seen, fix, most):
    found = [
        warn("W-001", h, seen.format(n=i, host=h), fix.format(n=i, host=h))
        for i, h in enumerate(NAMES)
    ]
    hosts = [host_facts(name, f"10.0.0.{i}") for i, name in enumerate(NAMES, 1)]
    lines = text(replace(report(*hosts), findings=tuple(found)), width=width).splitlines()
    assert lines[0].startswith("64 of 64 ") and " 1 warning " in lines[0]
    block = lines[[line.startswith("warn W-001") for line in lines].index(True) :]
    assert block[0] == "warn W-001  node[01-64]: title of W-001"
    assert len(block) <= most + (2 if width == 80 else 0), block
    everything = text(replace(report(*hosts), findings=tuple(found)), width=None, verbose=True)
    assert all(f.evidence.split()[0] in everything for f in found if "{host}" not in seen)
    assert all(line in everything for f in found for line in str(f.fix).splitlines())


def test_values_that_differ_stand_beside_each_other():
    found = [warn("W-001", n, f"{i // 2} GiB free") for i, n in enumerate(NAMES[:4])]
    shown = text(replace(report(A), findings=tuple(found)))
    assert shown.count("GiB free") == 1
    assert [line.split() for line in shown.splitlines() if "node[01-02]" in line] == [
        ["0", "on", "node[01-02],", "1", "on", "node[03-04]"]
    ]


def test_the_first_command_is_for_the_hosts_that_it_is_for():
    found = [warn("W-001", n, "x", do(command(f"sysctl fix{i}"))) for i, n in enumerate(NAMES[:3])]
    second = text(replace(report(A), findings=tuple(found))).splitlines()[1]
    assert second.endswith(" node01: sysctl fix0")


def test_failures_are_never_cut_and_what_is_cut_is_named():
    failing = [warn(f"F-{i:03d}", "node01", "x", severity=Severity.FAIL) for i in range(20)]
    warning = [warn(f"W-{i:03d}", "node01", "x") for i in range(10)]
    shown = text(replace(report(A), findings=(*failing, *warning)))
    assert [f.id for f in failing if f"fail {f.id}  node01" not in shown] == []
    assert shown.splitlines()[-1] == "… and 2 more warnings: -v   (W-008, W-009)"


@pytest.mark.parametrize("width", [80, 200, None])
def test_no_markup_and_no_escape_of_a_host_reaches_the_terminal(width):
    name = "[bold]node\x1b[31m[/bold]"
    hostile = replace(A, host=name, os_name="\x1b]0;x\x07[link=x]", pythons=())
    shown = text(report(hostile), width=width)
    assert "\x1b" not in shown and "\x07" not in shown
    assert "[bold]node" in shown


@pytest.mark.parametrize("width", [80, 200])
def test_nothing_but_commands_is_wider_than_the_terminal(width):
    hosts = [host_facts(f"a-rather-long-node-name-{i:03d}", f"10.20.30.{i}") for i in range(1, 40)]
    hosts[3] = replace(hosts[3], pythons=(), mem=replace(hosts[3].mem, shm_total=1, shm_free=1))
    lines = text(report(*hosts), width=width, verbose=True).splitlines()
    assert [x for x in lines if len(x) > width and not x.startswith(COMMANDS)] == []


@pytest.mark.parametrize(
    ("hosts", "code", "states"),
    [
        ((A, B), 0, ["ok", "ok"]),
        ((A, NO_PYTHON), 1, ["ok", "fail"]),
        ((NO_PYTHON, DOWN), 4, ["fail", "unreachable"]),
        ((A, replace(B, mem=replace(B.mem, shm_free=0))), 0, ["ok", "warn"]),
        ((A, HostDown("node02", "host-failed", "x")), 1, ["ok", "failed"]),
        (
            (A, HostDown.of("node02", HostKeyChanged("x"))),
            4,
            ["ok", "unreachable"],
        ),
        (
            (A, HostDown.of("node02", HostKeyUnknown("x"))),
            4,
            ["ok", "unreachable"],
        ),
    ],
)
def test_states_and_the_exit_code_follow_the_worst(hosts, code, states):
    judged = report(*hosts)
    assert (judged.exit_code, [judged.state(h.name) for h in judged.hosts]) == (code, states)
