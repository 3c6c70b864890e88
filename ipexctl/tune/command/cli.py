"""The options of `tune`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from ipexctl.cli.declared_command import command
from ipexctl.cli.options import Json, Root, on_hosts
from ipexctl.local.run_options import RunOptions
from ipexctl.run.command.command_line_words import remove_launcher, spell_for_click
from ipexctl.run.typed_values import READERS
from ipexctl.tune.tune_options import OF_RUN, TuneOptions


@command(
    "Runs",
    70,
    interrupted="nothing is written",
    keeps_rest=True,
    pasted=remove_launcher,
    spelled=spell_for_click,
)
@on_hosts(names=False, readers=READERS, only={RunOptions: OF_RUN})
def tune(
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    options: RunOptions,
    wanted: TuneOptions,
    json: Json = False,
) -> None:
    """Find the settings with which a script trains fastest.

    Short trials measure optimizer steps per second. What is faster than noise is written to
    ipexctl.toml after a question, and `ipexctl run` uses it.

    Examples:
      ipexctl tune -f hosts -ppn 2 train.py --lr 0.1
      ipexctl tune --budget 15m --allow numerics train.py
      ipexctl tune -y train.py                 # write ipexctl.toml without asking
    """
    import typer

    from ipexctl.base.typed_command import Typed
    from ipexctl.cli.options import print_json
    from ipexctl.project.send_agreed import send_agreed
    from ipexctl.run.watch.run_watchers import count_interrupts
    from ipexctl.tune.command.tune_text import Screen, offer_settings, tune_document
    from ipexctl.tune.tune import settings_to_write, write_settings
    from ipexctl.tune.tune import tune as verb

    script_words = (options.script, *options.args)
    words = sys.argv[1:]
    run = replace(
        options,
        root=root,
        confirm=send_agreed(yes=wanted.yes),
        typed=Typed(tuple(words[: len(words) - len(script_words)]), script_words),
    )
    screen = Screen(as_json=json)
    try:
        with count_interrupts() as interrupts:
            tuned = verb(target, run, wanted, screen, interrupts)
    finally:
        screen.live.stop()
    screen.show(tuned)
    writing = settings_to_write(tuned.found) if tuned.found.wins and not tuned.interrupted else None
    written = writing is not None and offer_settings(writing, yes=wanted.yes, as_json=json)
    if writing is not None and written:
        write_settings(writing)
    if json:
        print_json(tune_document(tuned, writing, written=written))
    raise typer.Exit(tuned.exit_code)
