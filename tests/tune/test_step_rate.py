"""Lines of the step meter -> steps per second."""

from __future__ import annotations

import json

import pytest

from ipexctl.in_ranks import ddp_bucket, step_meter
from ipexctl.tune.step_rate import LEAST, MARK, WARM_SECONDS, WARM_STEPS, Rates


def line(steps: int, at: float, pid: int = 1, **more: object) -> str:
    return MARK + json.dumps({"steps": steps, "at": at, "pid": pid, **more})


def rates(*found: tuple[int, int, float]) -> Rates:
    made = Rates(2)
    for rank, steps, at in found:
        assert made.read(rank, line(steps, at))
    return made


def test_both_sides_have_one_mark() -> None:
    assert step_meter.MARK == MARK
    assert step_meter.FIRST > WARM_STEPS


def test_warm_up_is_left_out() -> None:
    slow_start = [(0, 1, 100.0), (0, 2, 105.0), (0, 3, 106.0), (0, 23, 116.0)]
    assert rates(*slow_start).rate == pytest.approx(2.0)
    quick = [(0, n, 5 + n / 100) for n in range(1, 301)]
    found = rates(*quick)
    assert found.rate == pytest.approx(100)
    assert found.measured[1] == pytest.approx(2.99 - WARM_SECONDS, abs=0.03)


def test_the_slowest_rank_counts_by_its_own_clock() -> None:
    both = [(0, 1, 0.0), (0, 11, 2.0), (0, 31, 4.0), (1, 1, 900.0), (1, 11, 902.0), (1, 21, 904.0)]
    assert rates(*both).rate == pytest.approx(5.0)
    assert rates(*both).steps == 21


def test_a_rate_needs_steps_after_the_warm_up() -> None:
    assert rates().rate is None
    assert rates((0, 1, 0.0), (0, 3, 9.0)).rate is None


def test_enough_is_the_time_with_enough_steps_or_much_time() -> None:
    quick = rates((0, 1, 0.0), (0, 100, 1.0), (0, 200, 3.0))
    assert quick.is_enough(2.0)
    assert not quick.is_enough(2.1)
    slow = rates((0, 1, 0.0), (0, 3, 10.0), (0, 5, 20.0))
    assert slow.measured[0] < LEAST
    assert not slow.is_enough(9.0)
    assert slow.is_enough(2.5)


def test_hopeless_is_said_after_a_quarter_of_the_time() -> None:
    found = rates((0, 1, 0.0), (0, 10, 1.0), (0, 30, 3.0))  # 10 steps/s, 2 s of them
    assert found.is_hopeless(8.0, floor=21.0)
    assert not found.is_hopeless(8.0, floor=19.0)
    assert not found.is_hopeless(9.0, floor=21.0)


def test_a_script_that_ends_early_is_measured_from_its_first_step() -> None:
    short = rates((0, 1, 0.0), (0, 11, 0.5))
    assert short.rate is None
    short.end()
    assert short.rate == pytest.approx(20.0)


@pytest.mark.parametrize(
    "text",
    ["step 3 loss 0.1", MARK, MARK + "{", MARK + "[]", MARK + '{"steps": 1}', "x" + line(1, 1)],
)
def test_other_lines_are_none_of_these(text: str) -> None:
    made = Rates(1)
    assert not made.read(0, text)
    assert made.found == {}


def test_a_process_that_a_rank_starts_does_not_count_for_it() -> None:
    made = Rates(1)
    for text in (line(1, 0.0), line(100, 2.0), line(2, 2.5, pid=2), line(300, 4.0)):
        made.read(0, text)
    assert made.rate == pytest.approx(100.0)


def test_ranks_tell_what_they_have_loaded() -> None:
    made = Rates(2)
    made.read(0, line(1, 0.0, libraries=["libgomp"], ddp=["script"]))
    assert (made.seen.ranks, made.seen.libraries, made.seen.ddp) == (2, {"libgomp"}, "script")
    made.read(0, line(2, 0.1, ddp=["script", "default"]))
    assert made.seen.ddp == "default"


class _Torch:
    """torch.optim.optimizer of torch 1.x: without global hooks."""

    def __init__(self) -> None:
        class Optimizer:
            def __init__(self) -> None:
                self.made = True

        self.Optimizer = Optimizer


class _Meter(step_meter.Meter):
    def __init__(self) -> None:
        super().__init__(0.2)
        self.lines = 0

    def tell(self) -> None:
        self.lines += 1
        self.told = self.at


def test_steps_of_an_old_torch_are_counted_once() -> None:
    torch, meter = _Torch(), _Meter()
    step_meter.count_optimizer_steps(torch, meter)

    class Sgd(torch.Optimizer):
        def step(self, closure=None):
            return closure

    one, other = Sgd(), Sgd()
    assert [one.step(n) for n in range(7)] == list(range(7))
    other.step()
    assert (meter.steps, meter.lines, one.made) == (7, step_meter.FIRST, True)


def test_steps_are_counted_by_the_hook_of_a_newer_torch() -> None:
    torch, meter, hooks = _Torch(), _Meter(), []
    torch.register_optimizer_step_post_hook = hooks.append
    step_meter.count_optimizer_steps(torch, meter)
    for _ in range(3):
        hooks[0](torch, (), {})
    assert (len(hooks), meter.steps) == (1, 3)


class _Parallel:
    class DistributedDataParallel:
        def __init__(self, module, device_ids=None, bucket_cap_mb=None, *, static=False):
            self.size = bucket_cap_mb


@pytest.mark.parametrize(
    ("args", "kwargs", "size", "who"),
    [
        ((0,), {}, 100.0, "default"),
        ((0,), {"bucket_cap_mb": None}, 100.0, "default"),
        ((0,), {"bucket_cap_mb": 7}, 7, "script"),
        ((0, None, 7), {}, 7, "script"),
    ],
)
def test_the_bucket_size_is_set_where_the_script_leaves_it_out(
    args, kwargs, size, who, monkeypatch
) -> None:
    class Parallel:
        class DistributedDataParallel(_Parallel.DistributedDataParallel):
            pass

    monkeypatch.setenv("IPEXCTL_BUCKET_MB", "100")
    monkeypatch.setattr(ddp_bucket, "built", [])
    ddp_bucket.set_bucket_size(Parallel)
    made = Parallel.DistributedDataParallel(*args, **kwargs)
    assert (made.size, ddp_bucket.built) == (size, [who])
    with pytest.raises(TypeError):
        Parallel.DistributedDataParallel()
