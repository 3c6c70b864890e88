"""The options of `ipexctl run`, which are also arguments of the step `run` of plays and keys under
[run] in ipexctl.toml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial

from ipexctl.base.option import Seconds, option
from ipexctl.base.typed_command import Typed
from ipexctl.quick_dataclass import dataclass

Ports = tuple[int, int]  # first and last
STALL_ACTIONS = ("note", "stop", "restart")
WAIT_FOR_HOSTS = Seconds(60)  # --wait-for-hosts, if it is not given
WITHOUT_CHECKPOINT = ("wait", "begin")
COMPRESSIONS = ("off", "fp16", "bf16")  # of gradients: ipexctl/in_ranks/half_gradients.py
BUCKET = "IPEXCTL_BUCKET_MB"  # a variable that ipexctl/in_ranks/ddp_bucket.py reads
ranks_option = partial(option, group="Ranks")
run_option = partial(option, group="Run")
files_option = partial(option, group="Files")
output_option = partial(option, group="Output")
rare_ranks_option = partial(ranks_option, rare=True)
rare_run_option = partial(run_option, rare=True)
rare_files_option = partial(files_option, rare=True)
rare_output_option = partial(output_option, rare=True)
ports_option = partial(
    ranks_option,
    "--ports FIRST-LAST",
    "Port range to use where possible, for example 40000-40100.",
    None,
    typed=str | None,
)


@dataclass(frozen=True)
class RunOptions:
    """The order is that of the help, within each of its groups."""

    script: str = option(
        "SCRIPT",
        "Python script, a module (with -m), or another launcher's command line.",
        in_plays="Python script on this machine; with module, a module.",
    )
    args: tuple[str, ...] = option(
        "ARGS",
        "Script arguments: everything after SCRIPT.",
        (),
        in_plays="Arguments of the script.",
    )
    n: int | None = ranks_option(
        "-n --np N", "Total number of ranks.", None, least=1, in_plays=True, in_settings=True
    )
    ppn: int | None = ranks_option(
        "--ppn --nproc-per-node N",
        "Number of ranks per host (also -ppn).",
        None,
        least=1,
        in_plays="Ranks per host.",
        in_settings=True,
    )
    module: bool = ranks_option(
        "-m",
        "Run SCRIPT as a module, like python -m.",
        False,
        in_plays="Run script as a module, like python -m.",
    )
    env: dict[str, str] = ranks_option(
        "--env NAME[=VALUE]",
        "Set a variable for every rank; NAME alone forwards its local value.",
        {},
        in_plays="Variables for every rank.",
        in_settings=True,
    )
    # on the command line, command_line_words.for_click has inserted the file's options
    accelerate: str = rare_ranks_option(
        "--accelerate FILE",
        "Accelerate config with ranks, hosts and precision; options override it.",
        "",
        is_path=True,
        in_plays="Accelerate config; the other arguments override it.",
    )
    secret_env: dict[str, str] = rare_ranks_option(
        "--secret-env NAME",
        "Forward a local variable to the ranks as a secret.",
        {},
        secret=True,
        in_plays="Local variables to forward as secrets: never in a plan, log or `ps`.",
    )
    host_timeout: Seconds = rare_run_option(
        "--host-timeout TIME",
        "Time without contact after which a host counts as lost (default: 30s).",
        Seconds(30),
        show_default=False,
    )
    timeout: Seconds | None = run_option(
        "--timeout TIME", "Maximum run time: 90s, 10m, 2h.", None, in_plays="Maximum run time."
    )
    stall: Seconds = rare_run_option(
        "--stall TIME",
        "Report a run without progress after this long (default: 45s; 0: never).",
        Seconds(45),
        least=0,
        show_default=False,
        in_plays="Report a run without progress after this long; 0: never.",
    )
    stall_action: str = rare_run_option(
        "--stall-action NAME",
        "What to do with a stalled run: note, stop or restart.",
        "note",
        in_plays="What to do with a stalled run: note, stop or restart.",
    )
    restarts: int = run_option(
        "--restarts N",
        "Start again up to N times if a host or a rank fails.",
        0,
        least=0,
        show_default=False,
        in_plays="How often to start again if a host is lost or a rank fails.",
        in_settings=True,
    )
    queue: bool = run_option(
        "--queue",
        "Wait until other runs leave its cores, in order.",
        False,
        in_plays="Wait until its cores are free of other runs.",
    )
    spares: tuple[str, ...] = rare_run_option(
        "--spares PATTERN",
        "Hosts that replace lost ones; same patterns as --limit.",
        (),
        in_plays="Hosts that replace lost ones.",
    )
    min_hosts: int | None = rare_run_option(
        "--min-hosts N",
        "Continue with N hosts if spares are used up (default: as many as before).",
        None,
        least=1,
        show_default=False,
        in_plays="Fewest hosts to continue with.",
    )
    wait_for_hosts: Seconds = rare_run_option(
        "--wait-for-hosts TIME",
        "Time for lost hosts to come back if too few are left (default: 60s).",
        WAIT_FOR_HOSTS,
        least=0,
        show_default=False,
        in_plays="Time for lost hosts to come back if too few are left.",
    )
    without_checkpoint: str = rare_run_option(
        "--without-checkpoint wait|begin",
        "If no host in reach has the last checkpoint: wait for one, or begin again.",
        "wait",
        in_plays="If no host in reach has the last checkpoint: wait for one, or begin again.",
    )
    compress: str = rare_run_option(
        "--compress off|fp16|bf16",
        "Precision of DDP gradients on the network.",
        "off",
        in_plays="Precision of DDP gradients on the network: off, fp16 or bf16.",
        in_settings=True,
    )
    checkpoints: str = rare_run_option(
        "--checkpoints GLOB",
        "Checkpoints to copy to a second host during the run: 'out/checkpoint-*' (or a,b).",
        "",
        in_plays="Glob patterns of checkpoints to copy to a second host, with commas between them.",
        in_settings=True,
    )
    resume: str = rare_run_option(
        "--resume RUN[:NAME]",
        "Start with the last complete checkpoint of this run, or with that one.",
        "",
        in_plays="Start with the last complete checkpoint of this run: RUN, or RUN:NAME.",
    )
    resume_arg: str = rare_run_option(
        "--resume-arg TEXT",
        "Script arguments to add with --resume; {checkpoint} stands for its path.",
        "",
        in_plays="Script arguments to add with resume; {checkpoint} stands for its path.",
    )
    no_inspect: bool = rare_run_option(
        "--no-inspect",
        "Do not prepare the ranks' Python for `ipexctl why`.",
        False,
        in_plays="Do not prepare the ranks' Python for ipexctl why.",
    )
    require_together: bool = rare_run_option(
        "--require-together",
        "Exit with code 125 unless all ranks exchanged data (126: not known).",
        False,
        in_plays="Fail unless all ranks exchanged data.",
    )
    ranks: str | None = output_option("--ranks RANKS", "Show only these ranks: 0,4-7.", None)
    show_hosts: tuple[str, ...] = rare_output_option(
        "--show-hosts PATTERN", "Show only ranks on these hosts; same patterns as --limit.", ()
    )
    include: tuple[str, ...] = rare_output_option(
        "-i --include REGEX", "Show only lines that match this pattern.", ()
    )
    leave_out: tuple[str, ...] = rare_output_option(
        "-e --leave-out REGEX", "Hide lines that match this pattern.", ()
    )
    data: tuple[str, ...] = files_option(
        "--data NAME",
        "Dataset to use, from `ipexctl data push` or `pull`.",
        (),
        in_plays="Datasets on the hosts, as pushed by a data step.",
        in_settings=True,
    )
    name: str = run_option(
        "--name NAME", "Name of the run, for ps, logs, stop, wait and rm.", "", in_plays=True
    )
    detach: bool = run_option(
        "-d --detach",
        "Return when all ranks have started; the run continues.",
        False,
        in_plays="Continue the play when all ranks have started.",
    )
    notify: str = rare_run_option(
        "--notify COMMAND",
        "Shell command to run when the run ends, starts again or stalls.",
        "",
        secret=True,
        in_settings=True,
    )
    die_with_me: bool = rare_run_option(
        "--die-with-me",
        "End the run when this command ends; the default without a terminal.",
        False,
    )
    force: bool = rare_run_option(
        "--force", "Start even if preflight checks fail.", False, in_plays=True
    )
    no_sync: bool = rare_files_option(
        "--no-sync", "Do not copy the project: its files are already there.", False
    )
    yes: bool = rare_files_option("-y --yes", "Copy the project folder even if it is large.", False)
    fetch: tuple[str, ...] = files_option(
        "--fetch GLOB",
        "Files to fetch from the ranks' folder after the run.",
        (),
        in_plays="Glob patterns of files to fetch.",
    )
    outputs: tuple[str, ...] = rare_files_option(
        "--outputs DIR",
        "Folder to fetch after the run, from the ranks' working directory.",
        (),
        in_plays="Folders to fetch from the ranks' working directory; an empty string: none.",
    )
    dest: str = files_option(
        "-o --dest DIR", "Put the fetched files into this folder.", "", is_path=True
    )
    merge: bool = rare_files_option(
        "--merge", "Merge the files from all hosts into one folder.", False, in_plays=True
    )
    fetch_limit: int = rare_files_option(
        "--fetch-limit GB", "Maximum total size to fetch from all hosts.", 100, least=1
    )
    ports: Ports | None = ports_option(rare=True)

    @property
    def kept(self) -> bool:
        """Whether keepers on the hosts decide when an attempt begins."""
        return self.restarts > 0 or self.queue

    # what the command or the play adds
    root: str = "~/.ipexctl"
    lives_on: bool = False  # whether the run continues when its command has ended
    configured: frozenset[str] = frozenset()  # those of `env` that a settings file sets
    trial: bool = False  # of `tune`: its ranks count their steps; `tune` removes it
    may_install: bool = False  # raise MissingPackages, so that the command can ask
    confirm: Callable[[str], bool] = field(default=lambda question: False, repr=False)
    typed: Typed = field(default=Typed(), repr=False)
