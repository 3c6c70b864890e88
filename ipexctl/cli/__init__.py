"""Typer only: options -> request value -> verb -> renderer -> exit code.

One module per group of commands; here they are put together, and here is every way out.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ipexctl import __version__
from ipexctl.cli import bundle, doctor, hosts, install, run, streams
from ipexctl.cli.data import data_app
from ipexctl.cli.env import env_app
from ipexctl.cli.lab import lab_app
from ipexctl.errors import EXIT_BUG, EXIT_FAILED, EXIT_INTERRUPTED, InputError, IpexctlError

app = typer.Typer(
    name="ipexctl",
    help="Multi-node PyTorch training on Linux CPU machines that answer to SSH.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(value: bool) -> None:
    if value:
        print(f"ipexctl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    from ipexctl.local.settings import defaults, load

    try:
        context.default_map = defaults(load())
    except InputError:
        if "--help" not in sys.argv:  # help must work beside a broken ipexctl.toml
            raise


for command, brief in (
    (doctor.doctor, "Look at all hosts: what would break or slow a training."),
    (doctor.explain, "What a check or failure means, or what a log tells of."),
    (hosts.hosts, "Whom a hostfile names, or it as another program's."),
    (hosts.init, "Write a hostfile and ipexctl.toml here."),
    (hosts.config, "The settings, and where each is from."),
    (hosts.trust, "Show the hosts' SSH keys and remember those you accept."),
    (install.install, "Put PyTorch and MPI on all hosts."),
    (install.stacks, "The version table: what fits, and why the rest does not."),
    (bundle.bundle, "All files of ipexctl.lock in one, for hosts without net."),
    (run.shell, "Log in to a host, with the environment put there."),
):
    app.command(short_help=brief)(command)
# what follows the script is the script's, also when it looks like an option
app.command(
    short_help="Run a PyTorch script on all hosts, with live output.",
    context_settings={"allow_interspersed_args": False},
)(run.run)
app.add_typer(env_app, name="env")
app.add_typer(data_app, name="data")
app.add_typer(lab_app, name="lab", short_help="Practice hosts on this machine (Linux, root).")


def main() -> None:
    """Every way out: a result's code, an explained error, an interrupt, or a bug of ours."""
    streams.prepare()
    try:
        try:
            app(
                args=install.bare_ipex(run.long_dashes(sys.argv[1:])),
                prog_name="ipexctl",
                standalone_mode=True,
            )
        finally:
            sys.stdout.flush()
    except IpexctlError as e:
        _explain(e)
        sys.exit(e.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as e:
        if trouble := streams.stdout_trouble(e):
            if not streams.nobody_reads(trouble):
                _explain(IpexctlError(f"stdout: {trouble.strerror}"))
            sys.exit(EXIT_FAILED)
        import traceback

        traceback.print_exc()
        print("\nThis is a bug in ipexctl, not in your setup.", file=sys.stderr)
        sys.exit(EXIT_BUG)


def _explain(e: IpexctlError) -> None:
    print(f"ipexctl: {e.what}", file=sys.stderr)
    for label, text in (("why", e.why), ("try", e.hint)):
        for i, line in enumerate(text.splitlines()):
            print(f"  {label + ':' if i == 0 else '':5}{line}", file=sys.stderr)
