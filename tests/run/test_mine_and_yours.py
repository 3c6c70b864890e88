"""People who share the hosts and an account there: each command means one's own run of the project,
unless a run is named, and asks before it touches another's."""

from __future__ import annotations

import json
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.remote.install import env_users
from tests.cli import Ended, ipexctl
from tests.hub.test_other_versions_local import make_newer
from tests.run.test_ps_local import LONG, TRAIN, Here
from tests.ssh.test_shell import Terminal

SHORT = ("train.py", "1", "0")


class Person:
    """With a HOME, a project, and the folder on the host that all of them share."""

    def __init__(self, here: Here, name: str, project: str, login: str = "") -> None:
        self.here, self.name = here, name
        top = here.code.parent
        home, self.code = top / f"home-of-{login or name}", top / project
        self.code.mkdir(exist_ok=True)
        (self.code / "train.py").write_text(TRAIN)
        settings = home / ".config/ipexctl/config.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(f'root = "{top}/home/.ipexctl"\n')
        self.env = {**here.env, "HOME": str(home), "LOGNAME": login or name}

    def call(self, *words: str) -> Ended:
        return ipexctl(*words, cwd=self.code, env=self.env)

    def begin(self, *words: str) -> str:
        """Return the id of a run that goes on."""
        done = self.call("run", "-d", "-n", "1", "--force", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def run(self, *words: str) -> str:
        """Return the id of a run that has ended."""
        done = self.call("run", "-n", "1", "--force", "--json", *words)
        assert done.returncode == 0, done.stderr
        found: str = json.loads(done.stdout.splitlines()[-1])["run_id"]
        return found

    def rows(self) -> dict[str, dict]:
        done = self.call("ps", "-a", "--json")
        assert done.returncode == 0, done.stderr
        return {row["run_id"]: row for row in json.loads(done.stdout)["runs"]}

    def process(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.here.argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=self.code, env=self.env,
        )  # fmt: skip


class People:
    def __init__(self, folder: Path) -> None:
        self.here = Here(folder)
        self.ann = Person(self.here, "ann", "ann-bert")
        self.bob = Person(self.here, "bob", "bob-bert")
        self.ann_elsewhere = Person(self.here, "ann", "ann-gpt")


@pytest.fixture
def people(tmp_path: Path) -> Iterator[People]:
    made = People(tmp_path)
    yield made
    for run_id, row in made.ann.rows().items():
        if row["state"] == "running":
            made.ann.call("stop", run_id, "-t", "0", "-y")


UNNAMED = [
    ("attach",), ("logs",), ("logs", "-f"), ("metrics",), ("why",), ("report",), ("wait",),
    ("checkpoints",), ("fetch", "@last", "out"), ("fetch", "@last", "--checkpoint", "last"),
    ("stop", "@last", "-y"), ("rm", "@last", "-y"), ("support", "@last"),
    ("run", "-n", "1", "--resume", "@last", "train.py", "1", "0"),
]  # fmt: skip


def test_no_command_that_names_no_run_reaches_one_of_another_person_or_project(
    people: People,
) -> None:
    run = people.ann.begin("--name", "bert", *LONG)
    for person in (people.bob, people.ann_elsewhere):
        for words in UNNAMED:
            done = person.call(*words)
            assert (done.returncode, done.slug) == (2, "no-own-run"), (words, done.stderr)
            assert str(person.code) in done.errors[0].what
            assert "bert of ann@" in done.errors[0].why and str(people.ann.code) in done.stderr
    own = people.bob.run(*SHORT)
    newest = people.ann.begin(*LONG)
    compared = people.bob.call("report", own, "--compare", "@last")
    assert compared.slug == "report-same-run"
    assert people.bob.call("logs").stdout == "localhost r00 | step 0\n"
    assert people.bob.call("stop", "@last").stdout.split()[0] == own
    assert json.loads(people.bob.call("rm", "@last", "-y", "--json").stdout)["run_id"] == own
    rows = people.ann.rows()
    assert [rows[name]["state"] for name in (run, newest)] == ["running", "running"]
    assert people.ann.call("stop", "@last", "-t", "0").stdout == f"{newest} is stopped\n"


def test_another_persons_run_is_stopped_and_removed_only_after_a_question(people: People) -> None:
    run = people.ann.begin("--name", "bert", *LONG)
    whose = f"{run} (bert) is a run of ann@"
    for person in (people.bob, people.ann_elsewhere):
        for name in ("bert", run):
            asked = person.call("stop", name)
            assert (asked.returncode, asked.slug) == (2, "no-terminal")
            assert asked.errors[0].what.startswith(whose)
            assert asked.errors[0].what.endswith(f", in {people.ann.code}")
            assert asked.errors[0].hint == f"ipexctl stop {run} --yes"
    words = [f"{name}={value}" for name, value in people.bob.env.items()]
    shell = f"cd {people.bob.code} && exec {' '.join(people.here.argv('stop', 'bert', '-t0'))}"
    for answer, said, code in (
        ("n", "nothing was changed", 1),
        ("y", f"{run} of ann@.* is stopped", 0),
    ):
        terminal = Terminal(["env", "-i", *words, "/bin/sh", "-c", shell], 40, 200)
        terminal.until(re.escape(whose))
        terminal.until(r"Stop it\? \[y/N\] ")
        terminal.type(f"{answer}\r")
        terminal.until(said)
        assert terminal.exit_code() == code
    kept = people.bob.call("rm", "bert")
    assert (kept.returncode, kept.slug) == (2, "no-terminal")
    assert whose in kept.stderr and str(people.ann.code) in kept.stderr
    assert kept.errors[0].hint == f"ipexctl rm {run} --yes"
    kept = people.bob.call("rm", "bert", "-y")
    assert (kept.returncode, kept.slug) == (2, "run-of-another"), kept.stderr
    assert (
        kept.errors[0].what.startswith(whose) and f"# {run} has to be given" in kept.errors[0].hint
    )
    beginning = people.bob.call("rm", run[:14], "-y")
    assert (beginning.returncode, run in people.ann.rows()) == (2, True), beginning.stderr
    gone = people.bob.call("rm", run, "-y")
    assert gone.returncode == 0 and whose in gone.stderr
    assert run not in people.ann.rows()


def test_a_command_that_shows_another_persons_run_says_once_whose_it_is(people: People) -> None:
    (people.ann.code / "writes.py").write_text(WRITES)
    run = people.ann.run("--name", "bert", "writes.py")
    whose = f"ipexctl: note: {run} (bert) is a run of ann@{platform.node()}, in {people.ann.code}"
    page = str(people.bob.code / "page.html")
    for words in (
        ("logs", "bert"), ("metrics", "bert"), ("fetch", run, "out"), ("why", "bert"),
        ("report", "bert", "-o", page), ("wait", "bert"), ("checkpoints", run), ("attach", "bert"),
    ):  # fmt: skip
        said = " ".join(people.bob.call(*words).stderr.split())
        note = whose.removeprefix("ipexctl: note: ") if words[0] == "attach" else whose
        assert said.count(" is a run of ") == 1 and said.startswith(note), (words, said)
        own = people.ann_elsewhere.call(*words)
        assert "is a run of" not in own.stderr + own.stdout, words
    make_newer(people.here)
    for words in (("wait", "bert"), ("fetch", "bert", "out")):
        notes = re.findall("ipexctl: note: (.*)", people.bob.call(*words).stderr)
        assert "is a run of ann@" in notes[0] and "ipexctl" in notes[1], notes
    active = people.ann.begin("--name", "bert", *LONG)
    kept = people.bob.call("rm", "bert", "-y")
    assert (kept.returncode, kept.slug) == (2, "run-active")
    assert f"ipexctl wait {active}   # or ask ann@{platform.node()}" in kept.stderr
    assert f"ipexctl stop {active}" in people.ann_elsewhere.call("rm", "bert", "-y").stderr
    stopped = people.bob.call("stop", active, "-y", "-t", "0")
    assert stopped.stdout == f"{active} of ann@{platform.node()} is stopped\n"


def test_ctrl_c_at_a_question_says_that_nothing_was_done(people: People) -> None:
    run = people.ann.begin("--name", "bert", *LONG)
    ended = people.ann.run(*SHORT)
    words = [f"{name}={value}" for name, value in people.bob.env.items()]
    for typed, question, left in (
        (("stop", "bert"), "Stop it", "interrupted; nothing was stopped"),
        (("rm", ended), "Remove this", "interrupted; nothing was removed"),
        (("trust",), "Accept these settings", "interrupted; nothing was accepted"),
    ):
        if typed == ("trust",):
            (people.bob.code / "hosts").write_text("node01\n")
            (people.bob.code / "ipexctl.toml").write_text('hostfile = "hosts"\n')
        shell = f"cd {people.bob.code} && exec {' '.join(people.here.argv(*typed))}"
        terminal = Terminal(["env", "-i", *words, "/bin/sh", "-c", shell], 40, 200)
        terminal.until(rf"{question}\?.* \[(?:y/N|Y/n)\] ")
        time.sleep(2)  # a person takes that long; by then the answer is waited for
        terminal.type("\x03")
        terminal.until(rf"\n\r?{left}")
        assert terminal.exit_code() == 130
        assert terminal.said.endswith("\n")
        assert "stopping" not in terminal.said and "Traceback" not in terminal.said
    rows = people.ann.rows()
    assert (rows[run]["state"], rows[ended]["state"]) == ("running", "done")


OFFERS = """
import sys
from ipexctl.errors import MissingPackages
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.target import Target
from ipexctl.run.command.install_missing import offer_install
missing = MissingPackages("pandas is missing", line="ipexctl install pandas", known=True)
try:
    offer_install(missing, Target(), RunOptions("train.py"))
except KeyboardInterrupt as e:  # as a command shows it
    sys.exit(str(e))
"""


def test_ctrl_c_at_the_offer_to_install_says_that_nothing_was_done() -> None:
    terminal = Terminal([sys.executable, "-c", OFFERS], 40, 200)
    terminal.until(r"Install now\? \[Y/n\] ")
    time.sleep(2)  # a person takes that long; by then the answer is waited for
    terminal.type("\x03")
    terminal.until(r"\n\r?interrupted; nothing was installed, and no rank was started\r?\n")
    assert terminal.exit_code() == 1


ACCEPTS = OFFERS.replace("ipexctl install pandas", "ipexctl install --no-such-option")


def test_the_offered_install_is_ours_and_no_program_of_the_project(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (tmp_path / "ipexctl.py").write_text(f"open({str(mark)!r}, 'w')")
    code = f"{ACCEPTS}".replace("try:", f"import os\nos.chdir({str(tmp_path)!r})\ntry:", 1)
    code = code.replace("except KeyboardInterrupt as e", "except MissingPackages as e")
    terminal = Terminal([sys.executable, "-c", code], 40, 200)
    terminal.until(r"Install now\? \[Y/n\] ")
    terminal.type("y\n")
    terminal.until("No such option")
    assert terminal.exit_code() == 1
    assert not mark.exists()


def test_of_several_runs_with_one_name_rm_takes_none(people: People) -> None:
    runs = [people.ann.run("--name", "twin", *SHORT) for _ in range(2)]
    done = people.ann.call("rm", "twin", "-y")
    assert done.returncode == 2 and "twin: 2 runs have this name" in done.stderr
    assert all(run in done.stderr for run in runs)
    assert people.ann.call("rm", runs[0], "-y").returncode == 0
    assert people.ann.call("rm", "twin", "-y").returncode == 0
    assert {*runs}.isdisjoint(people.ann.rows())


def test_no_other_run_is_offered_for_an_id_that_no_run_has(people: People) -> None:
    run = people.bob.run("--name", "bert", *SHORT)
    near, shorter = (text[:-1] + ("0" if text[-1] != "0" else "1") for text in (run, run[:-1]))
    for text in (near, shorter, run[:11] + "9"):
        for command in ("stop", "rm", "logs"):
            done = people.bob.call(command, text)
            assert (done.returncode, done.slug) == (2, "unknown-run")
            assert done.stderr.startswith(
                f"ipexctl: no run on these hosts has an ID that begins with {text!r}"
            )
            assert run not in done.stderr
    assert "did you mean 'bert'?" in people.bob.call("stop", "brt").errors[0].what


LOSES = """
import sys
for step in range(1, 4):
    print(f"step {step} loss {float(sys.argv[1]) / step}", flush=True)
"""


def test_a_report_of_many_runs_has_another_persons_only_if_asked_and_says_whose(
    people: People,
) -> None:
    for person in (people.ann, people.bob):
        (person.code / "loses.py").write_text(LOSES)
    people.ann.run("--name", "w1", "loses.py", "9")
    people.ann.run("--name", "w3", "loses.py", "6")
    theirs = people.bob.run("--name", "w2", "loses.py", "3")
    assert people.ann.call("report", "w2").returncode == 0  # its folder is here now
    assert (people.ann.code / ".ipexctl/runs" / theirs).is_dir()
    own = people.ann.call("report", "--all")
    assert own.returncode == 0, own.stderr
    assert "best loss: 2 at step 3: w3 (" in own.stdout and "w2" not in own.stdout
    assert "runs of other projects that are left out: 1 (--every-project)" in own.stderr
    rows = json.loads(people.ann.call("report", "--all", "--json").stdout)["runs"]
    # newest first, by IDs that tell seconds: these two may have begun in one
    assert sorted((row["name"], row["by"]) for row in rows) == [("w1", ""), ("w3", "")]
    every = people.ann.call("report", "--all", "--every-project")
    assert f"best loss: 1 at step 3: w2 of bob@{platform.node()} (" in every.stdout
    head, *lines = every.stdout.splitlines()[2:6]
    assert head.split()[:2] == ["run", "by"]
    owners = [(line.split()[0], line.split()[1].partition("@")[0]) for line in lines]
    assert owners == [("w2", "bob"), ("w3", "ann"), ("w1", "ann")]
    csv_row = people.ann.call("report", "--all", "--every-project", "--csv").stdout.splitlines()[1]
    assert f",bob@{platform.node()}," in csv_row


WRITES = """
import time
from pathlib import Path
time.sleep(3)
Path("out").mkdir()
Path("out/ck-1.txt").write_text("weights")
print("::checkpoint done", flush=True)
"""


def test_a_run_that_resumes_another_persons_says_whose_it_is(people: People) -> None:
    (people.ann.code / "writes.py").write_text(WRITES)
    theirs = people.ann.run("--name", "bert", "--checkpoints", "out/*", "writes.py")
    words = ("run", "-n", "1", "--force", "--resume", "bert", "--checkpoints", "out/*", *SHORT)
    done = people.bob.call(*words)
    assert done.returncode == 0, done.stderr
    assert f"resuming from out/ck-1.txt (step 1) of {theirs}" in done.stderr
    assert f"{theirs} (bert) is a run of ann@" in done.stderr
    own = people.ann.call(*words)
    assert own.returncode == 0 and f" of {theirs}" in own.stderr, own.stderr
    assert "is a run of" not in own.stderr


def test_the_second_active_run_of_a_name_gets_another_and_a_name_means_ones_own(
    people: People,
) -> None:
    mine = people.bob.run("--name", "bert", *SHORT)
    theirs = people.ann.begin("--name", "bert", *LONG)
    assert people.bob.call("stop", "bert").stdout == f"{mine} has already ended: done\n"
    second = people.bob.call("run", "-d", "-n", "1", "--force", "--name", "bert", *LONG)
    assert f"this run is called bert-2: bert is active run {theirs} of ann@" in second.stderr
    assert "ipexctl stop bert-2" in second.stderr
    third = people.ann.begin("--name", "bert", *LONG)
    rows = people.ann.rows()
    names = {name: rows[name]["name"] for name in (mine, theirs, second.stdout.strip(), third)}
    assert list(names.values()) == ["bert", "bert", "bert-2", "bert-3"]
    assert people.ann.call("stop", "bert", "-t", "0").stdout == f"{theirs} is stopped\n"


def test_a_name_that_was_asked_for_means_ones_own_run_and_never_anothers_after_yes(
    people: People,
) -> None:
    theirs = people.ann.begin("--name", "job", *LONG)
    mine = people.bob.run("--name", "job", *SHORT)
    assert people.bob.rows()[mine]["name"] == "job-2"
    waited = people.bob.call("wait", "job")
    assert waited.returncode == 0 and mine in waited.stdout, waited.stdout
    assert f"{mine} (job-2) was to be called job" in waited.stderr
    assert people.bob.call("rm", "job-2", "-y").returncode == 0
    assert mine not in people.bob.rows()
    for words in (("stop", "job", "-y"), ("stop", "jbo", "-y"), ("rm", "job", "-y")):
        refused = people.bob.call(*words)
        assert refused.returncode == 2 and "of ann@" in refused.stderr, refused.stderr
        assert "-y" not in refused.stderr.partition("try:")[2], refused.stderr
    assert people.ann.rows()[theirs]["state"] == "running"


def test_a_name_that_was_only_asked_for_is_removed_after_a_question_alone(people: People) -> None:
    first = people.bob.begin("--name", "ck", *LONG)
    second = people.bob.run("--name", "ck", *SHORT)
    assert people.bob.rows()[second]["name"] == "ck-2"
    people.bob.call("stop", "ck", "-t", "0")
    for name in ("ck", "ck-r01"):
        shown = json.loads(people.bob.call("rm", name, "--check", "--json").stdout)
        assert shown["run_id"] == first, "its own name comes first"
    assert people.bob.call("rm", "ck", "-y").returncode == 0
    refused = people.bob.call("rm", "ck", "-y")
    assert (refused.returncode, refused.slug) == (2, "unknown-run")
    assert refused.errors[0].what == f"ck is not the name of {second} (ck-2)"
    assert refused.errors[0].hint.splitlines()[0] == "ipexctl rm ck-2"
    assert list(people.bob.rows()) == [second]
    asked = people.bob.call("rm", "ck")
    assert (asked.slug, asked.errors[0].hint) == ("no-terminal", f"ipexctl rm {second} --yes")
    assert people.bob.call("rm", "ck-2", "-y").returncode == 0
    assert people.bob.rows() == {}


def test_a_run_belongs_to_the_folder_of_its_files_and_to_that_where_it_was_typed(
    people: People,
) -> None:
    run = people.ann_elsewhere.run("--name", "far", "../ann-bert/train.py", "1", "0")
    for person in (people.ann, people.ann_elsewhere):
        assert person.rows()[run]["this_project"]
        assert person.call("logs").stdout == "localhost r00 | step 0\n"
    assert not people.bob.rows()[run]["this_project"]
    row = people.bob.rows()[run]
    places = [str(person.code) for person in (people.ann, people.ann_elsewhere)]
    assert ([row["folder"], row["typed_in"]], row["yours"]) == (places, False)


def test_ctrl_c_leaves_another_persons_run_that_is_attached_to(people: People) -> None:
    run = people.ann.begin("--name", "bert", *LONG)
    watches = people.bob.process("attach", "bert")
    assert watches.stdout
    assert watches.stdout.readline().startswith("localhost r00 | step ")
    watches.send_signal(signal.SIGINT)
    _, said = watches.communicate(timeout=60)
    assert f"{run} (bert) is a run of ann@" in said and "Ctrl-C leaves it running" in said
    assert watches.returncode == 0 and people.ann.rows()[run]["state"] == "running"
    own = people.ann.process("attach", "bert")
    assert own.stdout
    assert own.stdout.readline()
    own.send_signal(signal.SIGINT)
    own.communicate(timeout=60)
    assert wait_until(lambda: people.ann.rows()[run]["state"] == "stopped", 60, 0.5)


def test_the_question_of_remove_all_names_the_work_of_other_people(people: People) -> None:
    people.bob.run(*SHORT)
    for _ in range(2):
        people.ann.run(*SHORT)
    root = people.here.code.parent / "home/.ipexctl"
    ann = f"ann@{platform.node()}"
    for key, name in (("a" * 16, "bert"), ("b" * 16, "gpt")):
        (root / "envs" / key).mkdir(parents=True)
        env_users.note_project(str(root), key, {"id": f"{key[:12]}", "name": name, "by": ann})
    theirs = f"{ann}: 2 runs, 2 environments (bert, gpt)"
    asked = people.bob.call("remove", "--all")
    assert (asked.returncode, asked.slug) == (2, "no-terminal")
    assert f"\n  also of {theirs}\n" in asked.stderr and root.is_dir()
    shown = people.bob.call("remove", "--all", "--check", "--json")
    assert json.loads(shown.stdout)["found"][0]["of_others"] == [
        {"by": ann, "runs": 2, "environments": 2, "projects": ["bert", "gpt"]}
    ]
    assert (
        f"  also of {ann.replace('ann', 'bob', 1)}: 1 run\n"
        in people.ann.call("remove", "--all").stderr
    )
    removed = people.bob.call("remove", "--all", "-y")
    assert removed.returncode == 0 and not root.exists()
    assert f"removed, too, of {theirs}\n" in removed.stdout
