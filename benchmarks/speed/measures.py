"""How each kind of case is measured."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from skpararnn.kernels import cpu

from . import fitting, overhead
from .clock import repeated
from .layers import (
    STEPS,
    Ours,
    Torchs,
    bytes_held,
    check,
    gates_with_tanh,
    make_input,
    short_lengths,
    states_per_layer,
    training_step,
)

ROOT = Path(__file__).resolve().parents[2]
MILLISECOND, MICROSECOND, MEGABYTE = 1e-3, 1e-6, 1e6


class Measured(NamedTuple):
    """What a case gave.

    Parameters
    ----------
    value : float
        What floor and aim are about.
    ours, baseline : float, optional
        Both sides, in `unit`.
    unit : str
    """

    value: float
    ours: float | None = None
    baseline: float | None = None
    unit: str = ""


class Measure(NamedTuple):
    """A kind of case.

    Parameters
    ----------
    run : callable
        ``run(cases, clock)``: a `Measured` for each of the cases, all of one key.
    more : bool
        Whether more of it is better.
    by_width : bool, default=False
        Whether floor and aim are for vectors of 64 bytes; with 32 they are the half.
    key : callable, default=None
        ``key(case)`` of cases that are measured in turns with one baseline; by default
        each case is on its own.
    needs_kernel : bool, default=False
        Whether it cannot be measured on the path that serves without a compiler.
    """

    run: Callable
    more: bool
    by_width: bool = False
    key: Callable | None = None
    needs_kernel: bool = False


def measure_all(cases, clock):
    """Yield each case with its `Measured`."""

    def key(case):
        own = MEASURES[case.measure].key
        return case.measure, str(own(case) if own else case)

    first = {}
    for position, case in enumerate(cases):
        first.setdefault(key(case), position)
    in_groups = sorted(cases, key=lambda case: first[key(case)])
    for _, members in groupby(in_groups, key):
        members = list(members)
        run = MEASURES[members[0].measure].run
        yield from zip(members, run(members, clock), strict=True)


@contextmanager
def n_threads(number):
    """Set the threads of torch, which are those of the ops."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ------------------------------------------------------------------------------ layers


def against_torch(cases, clock, task):
    """Time our layers and the one of torch that is the baseline of all of them."""
    for case in cases:
        check(case.sizes)
    make, sizes = STEPS[task], cases[0].sizes
    with n_threads(sizes.threads):
        x = make_input(sizes)
        clock = clock if sizes.threads == 1 else clock.on_the_wall()
        steps = {i: make(Ours(case.sizes), x) for i, case in enumerate(cases)}
        times = clock.time(steps | {"torch": make(Torchs(sizes), x)})
    return [_speedup(times, i, "torch") for i in steps]


def baseline_of(case):
    """Return the sizes that torch's layer depends on."""
    s = case.sizes
    twin = {"lru": "gru"}.get(s.cell, s.cell)
    return s._replace(cell=twin, d_s=s.d_s * s.K, K=1)


def against_reference(cases, clock):
    """Time a training step beside the loop in plain torch."""
    (case,) = cases
    check(case.sizes)
    with n_threads(case.sizes.threads):
        x = make_input(case.sizes)
        times = clock.time(
            {
                "ours": training_step(Ours(case.sizes), x),
                "baseline": training_step(Ours(case.sizes, "reference"), x),
            }
        )
    return [_speedup(times)]


def _speedup(times, ours="ours", baseline="baseline"):
    return Measured(times.ratio(baseline, ours), *_milliseconds(times, ours, baseline))


def _milliseconds(times, ours="ours", baseline="baseline"):
    return *(times.seconds(name) / MILLISECOND for name in (ours, baseline)), "ms"


def fraction_of_ceiling(cases, clock, task, passes):
    """Compare a step with the time that its tanh alone would take.

    The kernel's own tanh runs over numbers that stay in the first cache. Two sizes are
    timed: their difference is free of the cost of a call from Python.
    """
    (case,) = cases
    check(case.sizes)
    with n_threads(case.sizes.threads):
        step = STEPS[task](Ours(case.sizes), make_input(case.sizes))
        calls = {n: repeated(_tanh_of(n), REPEATS) for n in (FEW, MANY)}
        times = clock.time({"ours": step} | calls)
    s = case.sizes
    evaluations = passes * gates_with_tanh(s.cell) * s.N * s.T * s.K * s.d_s
    share = evaluations / REPEATS / (MANY - FEW)
    for seconds in times.rounds:
        seconds["baseline"] = share * (seconds[MANY] - seconds[FEW])
    return [Measured(times.ratio("baseline", "ours"), *_milliseconds(times))]


FEW, MANY, REPEATS = 1024, 4096, 1000


def _tanh_of(n):
    """Tanh of n numbers in place, without checks."""
    numbers = np.linspace(-3, 3, n, dtype=np.float32)
    address, tanh = numbers.ctypes.data, cpu.load().tanh

    def call(numbers=numbers):  # holds the array as long as its address is used
        tanh(4, address, address, n)

    return call


def held_for_backward(cases, clock):
    """Count what is kept, as a share of the states of all steps."""
    (case,) = cases
    x = make_input(case.sizes)
    ours, torchs = (bytes_held(side(case.sizes), x) for side in (Ours, Torchs))
    share = ours / states_per_layer(case.sizes)
    return [Measured(share, ours / MEGABYTE, torchs / MEGABYTE, "MB")]


def half_short(cases, clock):
    """Time a training step with half of the rows short, as a share of all long."""
    (case,) = cases
    check(case.sizes)
    with n_threads(case.sizes.threads):
        x, module = make_input(case.sizes), Ours(case.sizes)
        times = clock.time(
            {
                "ours": training_step(module, x, short_lengths(case.sizes)),
                "baseline": training_step(module, x),
            }
        )
    return [Measured(times.ratio("ours", "baseline"), *_milliseconds(times))]


CODES = {"rnn": "rnn_tanh", "lstm": "lstm", "gru": "gru_after", "lru": "lru_tanh"}
MODULES = {"rnn": torch.nn.RNNCell, "lstm": torch.nn.LSTMCell, "gru": torch.nn.GRUCell}


def one_step(cases, clock):
    """Time one step of one sequence beside torch's module for a step."""
    (case,) = cases
    sizes = case.sizes
    (layer,) = Ours(sizes).layers
    weights = {name: w.detach().numpy() for name, w in layer.named_parameters()}
    stepper = cpu.Stepper(CODES[sizes.cell], **weights)
    stepper.x[:] = 0.5
    module, x = MODULES[sizes.cell](sizes.d_in, sizes.K * sizes.d_s), make_input(sizes)
    calls = {"ours": stepper.advance, "torch": _torch_step(module, x[:, 0])}
    with n_threads(1):
        times = clock.time({k: repeated(f, REPEATS) for k, f in calls.items()})
    microseconds = [times.seconds(k) / REPEATS / MICROSECOND for k in calls]
    return [Measured(microseconds[0], *microseconds, "us")]


def _torch_step(module, x):
    """Return a step that starts from the state of the one before."""
    states = [None]

    def step():
        with torch.inference_mode():
            states[0] = module(x, states[0])

    return step


# -------------------------------------------------------------------------- estimators


def epoch(cases, clock):
    """Time an epoch of `fit`, with its share of what is done once."""
    (case,) = cases
    with n_threads(case.sizes.threads):
        times = clock.time(fitting.fits(case.sizes))
    value, *both, unit = _speedup(times)
    return [Measured(value, *(ms / case.sizes.max_epochs for ms in both), unit)]


def predict(cases, clock):
    """Time `predict` for all rows."""
    (case,) = cases
    with n_threads(case.sizes.threads):
        return [_speedup(clock.time(fitting.predictions(case.sizes)))]


def beyond_bare(cases, clock, task, stub=False):
    """Time an estimator as a multiple of what one would write by hand."""
    (case,) = cases
    with n_threads(case.sizes.threads):
        calls = overhead.sides(case.sizes, stub)
        times = clock.time({name: calls[name] for name in (task, f"bare {task}")})
    value = times.ratio(task, f"bare {task}")
    return [Measured(value, *_milliseconds(times, task, f"bare {task}"))]


def grid_search(cases, clock):
    """Time a GridSearchCV; the warm-up starts the processes."""
    (case,) = cases
    with n_threads(case.sizes.threads):
        clock = clock if case.sizes.n_jobs == 1 else clock.on_the_wall()
        return [_speedup(clock.time(fitting.searches(case.sizes)))]


# ----------------------------------------------------------------------- new processes


def memory_of_fit(cases, clock):
    """Peak memory of one fit in a new process, above its data."""
    (case,) = cases
    peaks = [
        float(
            run_python(
                "from benchmarks.speed.cases import Fit\n"
                "from benchmarks.speed.fitting import print_peak\n"
                f"print_peak({side!r}, {case.sizes!r})"
            )
        )
        / MEGABYTE
        for side in ("ours", "baseline")
    ]
    return [Measured(peaks[0], *peaks, "MB")]


def import_time(cases, clock):
    """Time a statement in new processes, less the start of the interpreter."""
    (case,) = cases
    codes = {**case.sizes._asdict(), "start": "pass"}
    rounds = (clock.fewest + 1) // 2  # seconds each, and no cache but the disk's
    times = (
        clock.on_the_wall()
        ._replace(fewest=rounds, most=rounds)
        .time(
            {
                name: lambda code=code: run_python(code)
                for name, code in codes.items()
                if code is not None
            }
        )
    )
    spent = {name: times.seconds(name) for name in times.rounds[0]}
    start = spent.pop("start")
    ours, *baseline = ((seconds - start) / MILLISECOND for seconds in spent.values())
    return [Measured(ours, ours, *baseline, unit="ms")]


def run_python(code):
    """Return what a new interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


BESIDE_TORCH = {"by_width": True, "key": baseline_of}
OF_CEILING = {"by_width": True, "needs_kernel": True}

# whether more is better stands after the function
MEASURES = {
    "train": Measure(partial(against_torch, task="train"), True, **BESIDE_TORCH),
    "infer": Measure(partial(against_torch, task="infer"), True, **BESIDE_TORCH),
    "train by the reference": Measure(against_reference, True),
    "ceiling, infer": Measure(
        partial(fraction_of_ceiling, task="infer", passes=1), True, **OF_CEILING
    ),
    "ceiling, train": Measure(  # backward computes the states again
        partial(fraction_of_ceiling, task="train", passes=2), True, **OF_CEILING
    ),
    "held for backward": Measure(held_for_backward, False),
    "half the rows short": Measure(half_short, False),
    "step": Measure(one_step, False, needs_kernel=True),
    "epoch of fit": Measure(epoch, True, by_width=True),
    "predict": Measure(predict, True, by_width=True),
    "fit beyond a bare loop": Measure(partial(beyond_bare, task="fit"), False),
    "the loop of fit alone": Measure(
        partial(beyond_bare, task="fit", stub=True), False
    ),
    "predict beyond one bare call": Measure(
        partial(beyond_bare, task="predict"), False
    ),
    "grid search": Measure(grid_search, True),
    "memory of fit": Measure(memory_of_fit, False),
    "import": Measure(import_time, False),
}
