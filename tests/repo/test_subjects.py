"""The files of a subject have one stem: what reads a fact, what declares it, and what judges it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "ipexctl"

# the file that a subject lacks -> why
LACKS = {
    "read_clocks": "probe.py sends the clock first, before it imports anything",
    "ports_and_firewalls_facts": "they are fields of NetFacts: `doctor --json` has them there",
    "proxies_facts": "a field of SoftwareFacts",
    "shared_memory_facts": "fields of MemFacts and SoftwareFacts",
}
# checks that have no facts of their own
COMPARED = {"duplicate_hosts", "uniformity"}
TOGETHER = {"host"}  # host_facts.py reads the answer with all subjects


def stems(folder: str, before: str = "", after: str = "") -> set[str]:
    paths = (PACKAGE / folder).glob(f"{before}*{after}.py")
    return {path.stem.removeprefix(before).removesuffix(after) for path in paths}


def test_each_subject_has_its_three_files() -> None:
    checks = stems("doctor/checks") - {"__init__", "registry"} - COMPARED
    declared, read = stems("facts", after="_facts") - TOGETHER, stems("remote/facts", "read_")
    subjects = checks | declared | read
    missing = {f"check of {subject}" for subject in subjects - checks}
    missing |= {f"{subject}_facts" for subject in subjects - declared}
    missing |= {f"read_{subject}" for subject in subjects - read}
    assert missing == LACKS.keys()
