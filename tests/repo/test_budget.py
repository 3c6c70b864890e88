"""No room grows unasked: budget.toml has its lines. Whoever raises one says why there."""

from __future__ import annotations

from pathlib import Path

from ipexctl.base import toml

ROOT = Path(__file__).parents[2]
BUDGET = Path(__file__).with_name("budget.toml")
SLACK = 40  # lines by which a room may be below its budget before that is lowered


def lines_of(folder: Path, *, deep: bool = True) -> int:
    paths = folder.rglob("*.py") if deep else folder.glob("*.py")
    return sum(path.read_text("utf-8").count("\n") for path in paths)


def rooms() -> dict[str, int]:
    package = ROOT / "ipexctl"
    found = {p.name: lines_of(p) for p in package.iterdir() if p.is_dir()}
    found["top"] = lines_of(package, deep=False)
    return {name: lines for name, lines in found.items() if lines}


def words() -> int:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sum(len(page.read_text("utf-8").split()) for page in pages)


def measured() -> dict[str, dict[str, int]]:
    tests = {"lines": lines_of(ROOT / "tests")}
    return {"rooms": rooms(), "tests": tests, "docs": {"words": words()}}


def test_each_room_keeps_its_budget() -> None:
    budget = toml.loads(BUDGET.read_text("utf-8"))
    over = [
        f"{part}.{name}: {size}, {budget[part].get(name, 0)} allowed"
        for part, sizes in measured().items()
        for name, size in sizes.items()
        if size > budget[part].get(name, 0)
    ]
    assert over == [], f"make it smaller, or raise it in {BUDGET.name} with a comment that says why"


def test_what_was_won_stays() -> None:
    budget, now = toml.loads(BUDGET.read_text("utf-8")), measured()
    loose = [
        f"{part}.{name}: {now[part].get(name, 0)}, {allowed} allowed"
        for part, sizes in budget.items()
        for name, allowed in sizes.items()
        if now[part].get(name, 0) < allowed - SLACK * (1 if part == "rooms" else 10)
    ]
    assert loose == [], f"lower these in {BUDGET.name}"
