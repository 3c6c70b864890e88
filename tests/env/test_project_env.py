"""One project = one environment: which one run, env exec and shell act in, and what they say."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.errors import HostFailed
from ipexctl.facts.env_choice import EnvUsed
from ipexctl.local.project_lock import env_choice_of
from tests.cli import ipexctl
from tests.install.conftest import Outcome, Shop, make_wheel
from tests.stack.test_lock import TEXT

SCRIPT = "import sys; print(sys.prefix)\n"


@dataclass
class Projects:
    """Folders with a script each, whose locks differ by one package."""

    shop: Shop

    def make(self, name: str) -> Path:
        folder = self.shop.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "train.py").write_text(SCRIPT)
        make_wheel(self.shop.wheels, f"only_{name}", "1.0", {f"only_{name}.py": b""})
        (folder / "needs.txt").write_text(f"only-{name}\n")
        return folder

    def call(self, folder: Path, *words: str) -> Outcome:
        n = 2 if words[0] == "env" else 1
        asked = (*words[:n], "--root", str(self.shop.root), *words[n:])
        done = ipexctl(*asked, cwd=folder, env=self.environ())
        return Outcome(done.returncode, done.stdout, done.stderr)

    def environ(self) -> dict[str, str]:
        return {**self.shop.environ(), "XDG_STATE_HOME": str(self.shop.folder / "state")}

    def install(self, folder: Path, *words: str) -> str:
        """The key of its environment."""
        asked = ("install", "-y", "--mpi", "none", "--json", "--stack", "stock")
        needs = ("-r", "needs.txt") if (folder / "needs.txt").exists() else ()
        done = self.call(folder, *asked, *needs, *words)
        assert done.code == 0, done.err + done.out
        return str(done.document["environment"])

    def run(self, folder: Path, *words: str) -> Outcome:
        return self.call(folder, "run", "-n", "1", "--force", *words)

    def prefix(self, folder: Path) -> tuple[str, dict]:
        """The key of the environment that a run's script saw, and the run's plan."""
        done = self.run(folder, "--json", "train.py")
        assert done.code == 0, done.err + done.out
        events = [json.loads(line) for line in done.out.splitlines()]
        plan = next(e for e in events if e["event"] == "plan")
        seen = next(e["text"] for e in events if e["event"] == "line")
        return os.path.basename(os.path.realpath(seen)), plan

    @property
    def current(self) -> str:
        return os.path.basename(os.readlink(self.shop.root / "current"))


@pytest.fixture
def projects(shop: Shop) -> Iterator[Projects]:
    yield Projects(shop)


def test_each_project_runs_in_the_environment_of_its_own_lock(projects: Projects) -> None:
    a, b = projects.make("alpha"), projects.make("beta")
    keys = {a: projects.install(a), b: projects.install(b)}
    assert keys[a] != keys[b] == projects.current
    for folder in (a, b, a):
        seen, plan = projects.prefix(folder)
        assert seen == keys[folder]
        said = plan["environment"]
        assert (said["key"], said["project"], said["source"]) == (
            keys[folder], folder.name, "lock",
        )  # fmt: skip
        assert said["lock"] == str(folder / "ipexctl.lock")
    assert projects.current == keys[b]  # a run switches nothing
    text = projects.run(a, "-v", "train.py").err
    assert f"{keys[a]} (project alpha," in text and "from ipexctl.lock" in text
    assert keys[a] not in projects.run(a, "train.py").err
    done = projects.call(a, "env", "exec", "--", "python", "-c", SCRIPT)
    assert f"envs/{keys[a]}" in done.out, done.err


def test_an_installed_project_stays_installed_while_others_install(projects: Projects) -> None:
    a, b = projects.make("alpha"), projects.make("beta")
    key, other = projects.install(a), projects.install(b)
    again = projects.call(a, "install", "-y", "--mpi", "none", "--json").document
    assert again["environment"] == key
    assert [h["state"] for h in again["hosts"]] == ["ok"]
    assert projects.current == other
    c = projects.make("gamma")  # has not asked for it yet
    (c / "ipexctl.lock").write_text((a / "ipexctl.lock").read_text())
    (c / "needs.txt").unlink()
    assert projects.install(c) == projects.current == key


def test_a_lock_whose_environment_is_missing_is_refused_with_the_next_command(
    projects: Projects,
) -> None:
    a, b = projects.make("alpha"), projects.make("beta")
    key = projects.install(a)
    projects.install(b)
    os.unlink(projects.shop.root / "previous")
    gone = projects.call(a, "env", "rm", "-y", key)
    assert gone.code == 0, gone.err
    (line,) = [line for line in gone.out.splitlines() if line.startswith(f"  {key}  ")]
    assert "; ipexctl.lock " in line
    done = projects.run(a, "train.py")
    assert done.code == 123
    assert f" {key} of ipexctl.lock " in done.err
    assert f"ipexctl install --root {projects.shop.root} " in done.err
    assert projects.call(a, "env", "exec", "--", "true").code == 1
    from_beside = projects.run(b, "../alpha/train.py").err
    assert f" {key} of ../alpha/ipexctl.lock " in from_beside
    assert f"cd ../alpha && ipexctl install --root {projects.shop.root} " in from_beside


def test_a_run_that_is_refused_makes_no_folder_on_the_host(projects: Projects) -> None:
    a = projects.make("alpha")
    projects.install(a)
    elsewhere = replace(projects, shop=replace(projects.shop, folder=projects.shop.folder / "new"))
    assert elsewhere.run(a, "train.py").code == 123
    assert not elsewhere.shop.root.exists()


def test_requirements_that_have_changed_since_the_lock_are_named(projects: Projects) -> None:
    a, b = projects.make("alpha"), projects.make("beta")
    projects.install(a)
    changed = "needs.txt has changed since ipexctl.lock was written: ipexctl install --root "
    os.utime(a / "needs.txt")  # newer, and asks for the same
    assert "has changed" not in projects.run(a, "train.py").err
    (a / "needs.txt").write_text("only-alpha\nonly-beta\n")
    told = f"{changed}{projects.shop.root} -r needs.txt"
    assert told in projects.run(a, "train.py").err
    assert told in projects.call(a, "doctor").err
    beside = projects.run(b, "../alpha/train.py").err
    assert "../alpha/needs.txt has changed " in beside and " ../alpha/ipexctl.lock " in beside
    assert f"cd ../alpha && ipexctl install --root {projects.shop.root} -r needs.txt" in beside
    projects.install(a)
    assert "has changed" not in projects.run(a, "train.py").err


def test_without_a_lock_run_says_whose_environment_it_takes(projects: Projects) -> None:
    a, c = projects.make("alpha"), projects.make("gamma")
    key = projects.install(a)
    seen, plan = projects.prefix(c)
    assert (seen, plan["environment"]["source"]) == (key, "current")
    text = projects.run(c, "train.py").err
    (line,) = [t for t in text.splitlines() if t.startswith("environment ")]
    assert f"{key} (project alpha, 20" in line
    assert line.endswith(f" ipexctl.lock in {c}")


def test_an_environment_from_before_the_marks_is_of_an_unknown_project(projects: Projects) -> None:
    a = projects.make("alpha")
    key = projects.install(a)
    (projects.shop.root / "projects" / key / next(iter(os.listdir(
        projects.shop.root / "projects" / key
    )))).unlink()  # fmt: skip
    listed = projects.call(a, "env", "ls")
    assert "project unknown" in listed.out
    c = projects.make("gamma")
    assert f"{key} (project unknown," in projects.run(c, "train.py").err


def test_two_projects_with_one_name_and_one_lock_are_both_marked(projects: Projects) -> None:
    a = projects.make("alpha")
    key = projects.install(a)
    other = projects.shop.folder / "elsewhere" / "alpha"
    other.mkdir(parents=True)
    for name in ("needs.txt", "ipexctl.lock", "train.py"):
        (other / name).write_text((a / name).read_text())
    assert projects.install(other) == key
    (host,) = projects.call(a, "env", "ls", "--json").document["hosts"]
    (env,) = host["environments"]
    assert [p["name"] for p in env["projects"]] == ["alpha", "alpha"]
    assert len({p["id"] for p in env["projects"]}) == 2


def test_after_a_rollback_run_uses_what_the_project_had_before(projects: Projects) -> None:
    """Another project's environment, installed in between, is not gone back to."""
    a, b = projects.make("alpha"), projects.make("beta")
    first = projects.install(a)
    make_wheel(projects.shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    (a / "ipexctl.lock").unlink()
    second = projects.install(a)
    other = projects.install(b)
    assert len({first, second, other}) == 3
    would = projects.call(a, "install", "--rollback", "--check", "--json")
    assert would.detail.startswith(f"would use {first}, ")
    back = projects.call(a, "install", "--rollback", "--json")
    assert back.code == 0, back.err + back.out
    said, moved = back.detail.splitlines()
    assert said.startswith(f"now uses {first}, ") and said.endswith(f"; before: {second}")
    assert moved == (
        "it is now the host's current environment, too, which projects without a lock use; "
        f"before: {other}"
    )
    assert projects.current == first
    seen, plan = projects.prefix(a)
    assert (seen, plan["environment"]["source"]) == (first, "chosen")
    assert "by `install --rollback`" in projects.run(a, "train.py").err
    assert projects.prefix(b)[0] == other
    assert projects.call(a, "install", "--rollback").code == 0
    assert projects.prefix(a)[0] == second
    assert projects.call(a, "install", "--rollback").code == 0
    assert projects.install(a) == second
    assert projects.prefix(a)[0] == second


def test_a_project_without_an_earlier_environment_is_not_given_another_projects(
    projects: Projects,
) -> None:
    a, b = projects.make("alpha"), projects.make("beta")
    first = projects.install(a)
    key = projects.install(b)
    refused = projects.call(a, "install", "--rollback", "--json")
    assert refused.states == ["failed"] and projects.current == key
    assert refused.detail.splitlines()[1] == f"still uses {first}"
    back = projects.call(b, "install", "--rollback", "--json")
    assert back.code == 1 and back.document["environment"] is None
    assert back.states == ["failed"]
    assert projects.current == key
    assert projects.prefix(b)[0] == key


def test_rm_unused_spares_what_other_projects_and_this_lock_want(projects: Projects) -> None:
    a, b, c = (projects.make(name) for name in ("alpha", "beta", "gamma"))
    keys = [projects.install(folder) for folder in (a, b, c)]
    make_wheel(projects.shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    (c / "ipexctl.lock").unlink()
    newest = projects.install(c)
    last = projects.install(projects.make("delta"))  # current; newest is previous
    would = projects.call(a, "env", "rm", "--unused", "--check", "--json")
    (host,) = would.document["hosts"]
    kept = {k["key"]: k["why"] for k in host["kept"]}
    assert kept[keys[0]].startswith("ipexctl.lock ")
    assert " gamma (" in kept[keys[2]] and " used 20" in kept[keys[2]]
    assert host["environments"] == []
    done = projects.call(c, "env", "rm", "--unused", "-y")
    (line,) = [line for line in done.out.splitlines() if keys[0] in line]
    assert " alpha (" in line
    left = {path.name for path in (projects.shop.root / "envs").iterdir()} - {".lock"}
    assert left == {keys[0], keys[1], newest, last}  # its own older one went


def test_ls_says_what_rm_unused_removes_and_what_the_lock_here_names(projects: Projects) -> None:
    a, b = projects.make("alpha"), projects.make("beta")
    keys = [projects.install(a), projects.install(b)]
    for version in ("2.1", "2.2"):
        make_wheel(projects.shop.wheels, "numpy", version, {"numpy.py": b""})
        keys.append(projects.install(a, "--upgrade"))
    text = {folder: projects.call(folder, "env", "ls").out for folder in (a, b)}
    listed = {folder: projects.call(folder, "env", "ls", "--json").document for folder in (a, b)}
    would = projects.call(a, "env", "rm", "--unused", "--check", "--json").document["hosts"][0]
    for folder, first, lock in ((a, "unused", keys[3]), (b, "kept", keys[1])):
        envs = listed[folder]["hosts"][0]["environments"]
        uses = dict(zip(keys, (first, "kept", "previous", "current"), strict=True))
        assert {e["key"]: e["use"] for e in envs} == uses
        assert [e["key"] for e in envs if e["of_this_project"]] == [lock]
        lines = text[folder].splitlines()
        (at,) = [n for n, line in enumerate(lines) if "    ipexctl.lock names it; " in line]
        head = next(line for line in reversed(lines[:at]) if line.startswith("  " + lock))
        assert head.split()[:2] == [lock, uses[lock]]
    assert [e["key"] for e in would["environments"]] == [keys[0]]
    remove = f"ipexctl env rm --root {projects.shop.root} --unused   # removes what is unused"
    assert text[a].splitlines()[-1] == remove
    assert "env rm" not in text[b]
    shutil.rmtree(projects.shop.root / "envs" / keys[1])
    missing = f"  {keys[1]}  missing   ipexctl.lock names it: ipexctl install"
    assert missing in projects.call(b, "env", "ls").out.splitlines()


def test_ls_counts_the_hosts_that_it_does_not_show(projects: Projects) -> None:
    """Port 1 of this machine refuses every connection."""
    a = projects.make("alpha")
    (a / "hosts").write_text("a ansible_connection=local\nb address=127.0.0.1 port=1\n")
    done = projects.call(a, "env", "ls", "-f", "hosts")
    assert (done.code, done.out.splitlines()[-1]) == (4, "shown: 1 of 2 hosts")


@pytest.mark.parametrize("marker", ["pyproject.toml", "ipexctl.toml"])
def test_the_lock_of_a_project_is_found_below_its_folder(tmp_path: Path, marker: str) -> None:
    (tmp_path / marker).touch()
    (tmp_path / "ipexctl.lock").write_text(TEXT)
    (tmp_path / "src").mkdir()
    assert env_choice_of(tmp_path / "src").lock == str(tmp_path / "ipexctl.lock")


def test_the_lock_is_looked_for_up_to_the_projects_folder_and_no_further(tmp_path: Path) -> None:
    below = tmp_path / "top" / "project" / "src"
    below.mkdir(parents=True)
    (tmp_path / "top" / ".git").mkdir()
    (tmp_path / "ipexctl.lock").write_text("not a lock: nobody may read it")
    choice = env_choice_of(below)
    assert (choice.key, choice.without, choice.project.name) == (
        "", f"no ipexctl.lock in {below}", "top",
    )  # fmt: skip


def test_what_gives_a_script_elsewhere_its_hosts_gives_it_its_environment(
    projects: Projects,
) -> None:
    a, b = projects.make("alpha"), projects.make("beta")
    key, other = projects.install(a), projects.install(b)
    (a / "ipexctl.toml").write_text("forks = 2\n")
    lib = projects.shop.folder / "lib"
    lib.mkdir()
    (lib / "train.py").write_text(SCRIPT)
    done = projects.run(a, "--json", "../lib/train.py")
    plan = next(e for e in map(json.loads, done.out.splitlines()) if e["event"] == "plan")
    assert (plan["environment"]["key"], projects.current) == (key, other)


def _give(path: Path) -> None:
    os.chown(path, 65534, 65534)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give files away")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lock: (_give(lock), lock.parent.chmod(0o1777)), "owned by nobody"),
        (lambda lock: lock.parent.chmod(0o757), "{folder} is writable by everyone"),
    ],
    ids=["file in a sticky folder", "open folder"],
)
def test_a_lock_that_another_user_could_have_written_is_not_used(
    projects: Projects, change, why: str
) -> None:
    """As ipexctl.toml: see tests/inventory/test_settings.py."""
    a, b = projects.make("alpha"), projects.make("beta")
    mine, other = projects.install(a), projects.install(b)
    change(a / "ipexctl.lock")
    note = f"ipexctl: note: ignoring ipexctl.lock: {why.format(folder=a)}\n"
    seen, plan = projects.prefix(a)
    assert (seen, plan["environment"]["source"]) == (other, "current")
    assert note in projects.run(a, "train.py").err
    listed = projects.call(a, "env", "ls", "--json")
    (host,) = listed.document["hosts"]
    uses = {env["key"]: env["of_this_project"] for env in host["environments"]}
    assert uses == {mine: False, other: False}
    assert note in listed.err
    before = (a / "ipexctl.lock").read_text()
    done = projects.call(a, "install", "-y", "--mpi", "none", "--stack", "stock", "--upgrade")
    assert (done.code, (a / "ipexctl.lock").read_text()) == (2, before)
    assert note in done.err


def test_diff_compares_with_what_this_project_uses_and_says_so(projects: Projects) -> None:
    a, b = projects.make("alpha"), projects.make("beta")

    def diff(folder: Path, *words: str) -> list[str]:
        asked = ("--mpi", "none", "--stack", "stock", "--check", "--diff", *words)
        done = projects.call(folder, "install", *asked)
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        at = next(n for n, line in enumerate(lines) if "to change" in line)
        changes = [
            line.strip() for line in lines[at + 1 :] if line[-6:] in (" added", "remove", "-> 2.1")
        ]
        return [lines[at].partition(": ")[2], *changes]

    nothing = "no environment yet"
    needs = ("-r", "needs.txt")
    first = ["numpy 2.0 added", "only-alpha 1.0 added", "torch 2.13.0+cpu added"]
    assert diff(a, *needs) == [f"3 packages to change, {nothing}", *first]
    own = projects.install(a)
    (line, *_) = diff(b, *needs)
    assert f" {own}," in line and "current" in line
    projects.install(b)
    # beta's is current
    make_wheel(projects.shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    change = [f"1 package to change, compared with {own}, which this project uses"]
    assert diff(a, "--upgrade") == [*change, "numpy 2.0 -> 2.1"]
    # a lock that comes from elsewhere, and is not installed yet
    key = projects.install(a, "--upgrade")
    other = projects.install(projects.make("gamma"))
    shutil.rmtree(projects.shop.root / "envs" / key)
    assert diff(a) == [*change, "numpy 2.0 -> 2.1"]
    assert projects.current == other


def test_below_the_projects_folder_all_commands_find_its_lock(projects: Projects) -> None:
    a = projects.make("alpha")
    (a / ".git").mkdir()
    below, own = a / "src", a / "other"
    for folder in (below, own):
        folder.mkdir()
        (folder / "train.py").write_text(SCRIPT)
    key = projects.install(a)
    again = projects.call(below, "install", "-y", "--stack", "stock", "--json")
    assert (again.document["environment"], again.states) == (key, ["ok"])
    assert " ../ipexctl.lock\n" in again.err
    assert not (below / "ipexctl.lock").exists()
    assert projects.prefix(below)[0] == key
    assert ", from ../ipexctl.lock\n" in projects.run(below, "-v", "train.py").err
    assert ", from ../ipexctl.lock\n" in projects.call(below, "doctor").out
    assert "    ../ipexctl.lock names it; " in projects.call(below, "env", "ls").out
    shutil.copy(a / "needs.txt", own)  # a project of its own below it keeps its own lock
    (own / "ipexctl.lock").write_text((a / "ipexctl.lock").read_text())
    assert "../ipexctl.lock" not in projects.call(own, "install", "--check").err


def test_a_lock_above_the_project_is_not_its_lock(projects: Projects) -> None:
    a = projects.make("alpha")
    projects.install(a)
    (a / "try").mkdir()
    projects.install(a / "try")
    assert (a / "try" / "ipexctl.lock").exists()


def test_what_a_host_says_of_its_environment_is_read_or_refused() -> None:
    user = [{"id": "1", "name": "n\x1b", "by": "b"}, "", ""]
    used = Answer("h", {"key": "a" * 16, "built": "x", "users": [user]}).read(EnvUsed)
    assert (used.built, used.users[0].project.name) == ("x", "n")
    key = {"key": "a" * 16}
    for bad in (
        {"key": 3}, {"key": "../../etc"}, {}, {**key, "users": [["odd"]]}, {**key, "users": 3},
        {**key, "built": "\x1b[2J"}, {**key, "choice": {}}, {**key, "users": [["odd", "", ""]]},
    ):  # fmt: skip
        with pytest.raises(HostFailed):
            Answer("h", bad).read(EnvUsed)
