import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipexctl.common.described_ends import describe_program_end
from ipexctl.explain.known_failures import known_failures
from ipexctl.run.outcome import verdict
from ipexctl.run.outcome.first_cause import known_cause
from ipexctl.run.outcome.rank_exchange import Exchange, ExchangeVerdict
from ipexctl.run.outcome.rank_states import RankEnd, RankStates
from ipexctl.run.output.rank_lines import (
    MAX_LINE,
    Lines,
    strip_control_codes,
    without_colour,
    without_rank_prefix,
)
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from tests.made import facts, host, prepared


def state(n=3):
    nodes = [PlannedHost(host(f"n{i}"), facts(f"n{i}"), prepared()) for i in range(n)]
    return RankStates(make_launch_plan(nodes, RunRequest(("t.py",), n), "r1"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1;2|secret\x1b\\x", "x"),
        ("a\x07b\x08c\x00d", "abcd"),
        ("[bold]not ours[/bold]", "[bold]not ours[/bold]"),
        ("\u202eevil", "evil"),
        ("\u200eno\u200f mark\u061c", "no mark"),
        ("cut \x1b[3", "cut 3"),
    ],
)
def test_only_colour_passes(text, shown):
    assert strip_control_codes(text) == shown


@pytest.mark.parametrize("read", ["output", "skim"])
def test_warnings_of_our_modules_are_kept_however_fast_a_rank_prints(read):
    found, line = state(2), b"ipexctl: warning: --compress fp16: lost %d\n"
    getattr(found, read)(1, b"x\n" * 50 + line % 0 + b"not ipexctl: warning: \n" + b"x\n" * 50)
    assert found.warnings == ["rank 1: --compress fp16: lost 0"]
    for number in range(1, 100):
        getattr(found, read)(0, line % number)
    assert len(found.warnings) < 20


def test_bytes_in_any_pieces_give_the_same_lines():
    data = "".join(f"line {i} ü\n" for i in range(200)).encode() + b"no end"
    expected = [f"line {i} ü" for i in range(200)] + ["no end"]
    rng = random.Random(7)
    for _ in range(20):
        lines, out, at = Lines(), [], 0
        while at < len(data):
            step = rng.randint(1, 40)
            out += lines.feed(data[at : at + step])
            at += step
        assert out + lines.end() == expected


def test_of_a_progress_bar_the_last_state_is_kept():
    assert Lines().feed(b" 10%\r 50%\r100%\r\nnext\n") == ["100%", "next"]


def test_what_is_printed_while_a_bar_stands_is_a_line_of_its_own():
    red = Lines().feed(b"\r 5%|#  | 1/20 [00:03<00:04]\x1b[31mstep\x1b[0m 1\n")
    assert red == ["\x1b[31mstep\x1b[0m 1"]
    bar = " 45%|##  | 9/20 [00:03<00:04, 2.6it/s, loss=0.4]"
    glued = f"\r 40%|##  | 8/20 [00:03<00:04]\r{bar}step 9 loss 0.3\n\r100%|####| 20/20 [00:07]\n"
    lines = Lines()
    assert lines.feed(glued.encode()) + lines.end() == [
        "step 9 loss 0.3",
        "100%|####| 20/20 [00:07]",
    ]
    states = Lines(bars=True).feed(glued.encode())
    assert [s for s in states if s][1:3] == [bar, "step 9 loss 0.3"]


NESTED = (  # what tqdm 4.70 writes: a newline before an inner bar, and the cursor up behind it
    "\rEpoch 0:  33%|###  | 1/3 [00:00<00:01]\n\rEval:   0%|   | 0/2 [00:00<?]"
    "\x1b[A\n\rEval:  50%|#  | 1/2 [00:01<00:01]\x1b[A\rEpoch 0:  66%|####  | 2/3 [00:01<00:01]"
    "\n\r          \x1b[Ahello\n"
    "\rEpoch 0: 100%|######| 3/3 [00:01<00:00]\n\rEpoch 1:   0%|   | 0/3 [00:00<?]"
)


@pytest.mark.parametrize("step", [1, 3, 10, 1000])
def test_nested_bars_are_no_lines(step: int):
    lines, out, data = Lines(), list[str](), NESTED.encode()
    for at in range(0, len(data), step):
        out += lines.feed(data[at : at + step])
    assert out + lines.end() == [
        "hello", "Epoch 0: 100%|######| 3/3 [00:01<00:00]", "Epoch 1:   0%|   | 0/3 [00:00<?]",
    ]  # fmt: skip


def test_a_line_without_end_does_not_grow_for_ever():
    lines = Lines()
    out = lines.feed(b"x" * 200_000)
    assert [len(t) for t in out] == [65536] * 3
    assert len(lines.end()[0]) == 200_000 - 3 * 65536


RED, OFF = "\x1b[38;5;196m", "\x1b[0m"
WORDS = [
    RED,
    OFF,
    "ü你",
    "\x1b",
    "\x1b[",
    "\x1b[3",
    "m",
    "x",
    "\t",
    "\x1b[2J",
    f"\x1b[{'1;' * 99}m",
    "\n",
]


@settings(max_examples=60, deadline=None)
@given(
    before=st.integers(MAX_LINE - 80, MAX_LINE + 4),
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=12),
    steps=st.lists(st.integers(1, MAX_LINE), max_size=4),
    end=st.sampled_from(["", "\n"]),
)
def test_no_line_is_too_long_or_has_a_piece_of_a_colour_in_it(before, words, steps, end):
    data = ("x" * before + "".join(words) + "x" * MAX_LINE + end).encode()
    lines, out, at = Lines(), [], 0
    for step in [*steps, len(data)]:
        out += lines.feed(data[at : at + step])
        at += step
    out += lines.end()
    assert max(map(len, out)) <= MAX_LINE
    assert [t for t in out if not without_colour(t).isprintable()] == []


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("before", range(MAX_LINE - 12, MAX_LINE + 2))
def test_a_long_line_is_cut_beside_a_colour_and_beside_a_letter(before, end):
    lines = Lines()
    out = lines.feed(("x" * before + RED + "你" + OFF + "x" * MAX_LINE + end).encode())
    assert without_colour("".join([*out, *lines.end()])) == "x" * before + "你" + "x" * MAX_LINE


def test_the_last_lines_of_each_rank_are_remembered():
    run = state()
    run.output(1, b"".join(b"%d\n" % i for i in range(70)) + b"half")
    run.final_output(1)
    assert run.tails[1] == [str(i) for i in range(31, 70)] + ["half"]


def test_harmless_warnings_are_counted_and_not_shown():
    run = state()
    noise = b"[W1120 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved."
    assert run.output(0, noise + b" err=-3\nepoch 1\n") == ["epoch 1"]
    assert (run.hidden, run.tails[0]) == (1, ["epoch 1"])


IPEX_SAYS = """\
[W1120 13:17:57.548196549 OperatorEntry.cpp:218] Warning: Warning only once for all operators,  other operators may also be overridden.
  Overriding a previously registered kernel for the same operator and the same dispatch key
  operator: aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1) -> Tensor
    registered at /pytorch/build/aten/src/ATen/RegisterSchema.cpp:6
  dispatch key: AutocastCPU
  previous kernel: registered at /pytorch/aten/src/ATen/autocast_mode.cpp:327
       new kernel: registered at /opt/workspace/ipex-cpu-dev/csrc/cpu/autocast/autocast_mode.cpp:112 (function operator())
My guessed rank = 0
W1120 13:18:09.003000 134 intel_extension_for_pytorch/utils/_logger.py:72] No CUDA runtime is found, using CUDA_HOME='/usr/local'
2026-11-20 13:18:09,881 - _logger.py - IPEX - WARNING - 'fuse_update_step' will be deprecated in a future release of Intel
"""  # noqa: E501  # as IPEX 2.8.0 said it


@pytest.mark.parametrize("line", IPEX_SAYS.splitlines())
def test_what_ipex_says_at_each_start_is_harmless(line):
    run = state()
    assert run.output(0, f"{line}\nepoch 1\n".encode()) == ["epoch 1"]
    assert run.hidden == 1


def test_frames_of_cpp_do_not_push_out_the_message_above_them():
    run = state()
    message = "RuntimeError: [c10d] TCP client failed to connect to localhost:29511"
    frame = "frame #{}: c10d::TCPStore::TCPStore(Options const&) + 0x41d (0x7fea3ab in /a/b.so)"
    said = [message, *(frame.format(i) for i in range(60)), f"[rank1]: {frame.format(60)}"]
    said.append("frame #61: /a/bin/python3() [0x565cd0]")
    assert run.output(0, "".join(f"{line}\n" for line in said).encode()) == [message]
    assert (run.hidden, run.tails[0]) == (62, [message])


def test_what_only_looks_like_it_is_shown():
    run = state()
    lines = [
        "frame #3: 17 objects (0x in view)",
        "dispatch key: mine",
        "registered at 9 o'clock",
        "IPEX - WARNING - hot",
        "CUDA is gone",
    ]
    assert run.output(0, "".join(f"{line}\n" for line in lines).encode()) == lines


# --- progress bars, floods, and torch-ccl's abort ------------------------------------------------


def told(lines):
    bar = lines.bar()
    lines.told(bar)
    return bar


def test_a_bar_without_an_end_is_told_when_it_has_moved():
    lines = Lines()
    assert lines.feed(b"start\n 10%\r 20%") == ["start"]
    assert [told(lines), told(lines)] == [" 20%", ""]
    assert lines.feed(b"\r 30%\r") == []
    assert [told(lines), lines.end(), told(lines)] == [" 30%", [" 30%"], ""]
    assert (lines.feed(b"\r 30%"), told(lines)) == ([], " 30%")


def test_a_line_that_is_no_bar_is_not_torn():
    lines = Lines()
    lines.feed(b"half a li")
    assert lines.bar() == ""
    assert lines.feed(b"ne\n") == ["half a line"]


def test_a_bar_for_hours_does_not_grow():
    lines = Lines()
    for i in range(50_000):
        assert lines.feed(b"\r%5d" % i) == []
    assert lines.end() == ["49999"]


def test_lines_that_nobody_can_draw_are_counted_and_the_last_ones_remembered():
    run = state()
    run.output(1, b"begun ")
    data = b"".join(b"%d\n" % i for i in range(1000))
    assert run.skim(1, data) == 1000
    assert run.tails[1] == [str(i) for i in range(960, 1000)]
    assert run.skim(1, b"few\nlines") == 1
    assert run.final_output(1) == ["lines"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "ended with code 1"),
        (255, "ended with code 255"),
        (137, "ended with code 137 (SIGKILL)"),
        (-9, "was ended by signal 9 (SIGKILL)"),
        (-64, "was ended by signal 64"),
    ],
)
def test_the_end_of_mpis_programs_names_the_signal(code, words):
    assert describe_program_end(code) == words


def test_torchs_mark_before_a_traceback_is_taken_off():
    lines = ["[rank12]: MemoryError", "[rank]: x", "a [rank1]: b"]
    assert [without_rank_prefix(t) for t in lines] == ["MemoryError", "[rank]: x", "a [rank1]: b"]


# --- what is said of a run in which no rank failed ---------------------------------------------

SORRY = b"Unable to locate sufficient 2 gpus to run this example. Exiting.\n"
FOUND_NONE = b"No GPU found, using the CPU\n"


@pytest.mark.parametrize(
    ("said", "found", "required", "code", "ended_by", "known"),
    [
        (SORRY, Exchange(ExchangeVerdict.ALONE), False, 0, "ranks", "gpu-check"),
        (SORRY, Exchange(ExchangeVerdict.ALONE), True, 126, "not-known", "gpu-check"),
        (SORRY, None, False, 0, "ranks", "gpu-check"),  # one rank
        (
            SORRY + b"1\n2\n3\n",
            Exchange(ExchangeVerdict.ALONE),
            True,
            125,
            "not-together",
            "trained-alone",
        ),
        (SORRY, Exchange(ExchangeVerdict.ALONE, steps=3), False, 0, "ranks", None),  # it went on
        (SORRY, Exchange(ExchangeVerdict.TOGETHER), True, 0, "ranks", None),
        (FOUND_NONE, Exchange(ExchangeVerdict.ALONE), False, 0, "ranks", None),
        (b"", Exchange(ExchangeVerdict.UNKNOWN, reason="short"), True, 126, "not-known", None),
        (b"", Exchange(ExchangeVerdict.APART), True, 125, "not-together", "trained-alone"),
        (b"", Exchange(ExchangeVerdict.TOGETHER), True, 0, "ranks", None),
    ],
)
def test_what_is_not_known_is_told_from_what_is_apart(said, found, required, code, ended_by, known):
    run = state(2)
    for rank in (0, 1):
        run.started.add(rank)
        run.output(rank, said)
        run.rank_ended(RankEnd(rank, f"n{rank}", code=0))
    ended = verdict.Verdict(0, "ranks", "")
    how = verdict.Ending("r1", 1.0, (), ended, (), exchange=found, require_together=required)
    result = verdict.result_of(run, how, known_failures)
    assert (result.exit_code, result.ended_by) == (code, ended_by)
    cause = known_cause(result, known_failures)
    assert (cause and cause.slug) == known
    if known == "gpu-check" and found:
        assert (result.exchange.verdict, result.exchange.is_alarming) == (
            ExchangeVerdict.UNKNOWN,
            False,
        )
