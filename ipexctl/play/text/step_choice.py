"""--tags, --skip-tags and --from: which steps of a play are done."""

from __future__ import annotations

from ipexctl.base.located_errors import did_you_mean
from ipexctl.errors import InputError
from ipexctl.play.text.play_values import Play, PlayStep
from ipexctl.quick_dataclass import dataclass

ALWAYS, NEVER = "always", "never"


@dataclass(frozen=True)
class StepChoice:
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    first: str = ""  # a step's name or number


def chosen_steps(play: Play, choice: StepChoice) -> tuple[PlayStep, ...]:
    """Raises InputError for tags and steps that are not in the play."""
    known = {tag for step in play.all_steps for tag in step.tags} | {ALWAYS, NEVER}
    for option, tags in (("--tags", choice.tags), ("--skip-tags", choice.skip_tags)):
        for tag in tags:
            if tag not in known and tag != "all":
                what = f"{option} {tag}: no step of {play.source} has this tag"
                own = ", ".join(sorted(known - {ALWAYS, NEVER})) or "none"
                raise InputError(
                    what + did_you_mean(tag, known), hint=f"tags: {own}", slug="unknown-tag"
                )
    steps = _from(play, choice.first) if choice.first else play.steps
    return tuple(step for step in steps if _wanted(step, choice))


def _wanted(step: PlayStep, choice: StepChoice) -> bool:
    """As in Ansible: `never` needs its tag to be named, `always` its tag to be skipped."""
    if step.tags & set(choice.skip_tags):
        return False
    named = step.tags & set(choice.tags)
    if NEVER in step.tags:
        return bool(named)
    return not choice.tags or bool(named) or ALWAYS in step.tags or "all" in choice.tags


def _from(play: Play, first: str) -> tuple[PlayStep, ...]:
    for i, step in enumerate(play.steps):
        if first in (step.name, str(step.number)):
            return play.steps[i:]
    names = [step.name for step in play.steps if step.name]
    what = f"--from {first}: {play.source} has no such step{did_you_mean(first, names)}"
    raise InputError(what, hint="--list-steps   # names and numbers", slug="unknown-step")
