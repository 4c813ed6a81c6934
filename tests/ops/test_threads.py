"""The CPU kernel's own threads: gone after a call, and without a trace in results."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from time import sleep

import pytest
import torch

from .layers import VARIANTS, Layer, bounded_layer, variant_id

pytestmark = pytest.mark.usefixtures("kernel")

variants = pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)

TASKS = Path("/proc/self/task")
on_linux = pytest.mark.skipif(
    not TASKS.exists(), reason="threads are counted in /proc, which Linux has"
)


def large_layer(variant, dtype=torch.float32):
    """Work that is worth four threads, forward too; rows for several tiles of them."""
    sizes = {"N": 70, "T": 150, "d_in": 3, "K": 48, "d_s": 2}
    if variant[1].get("candidate") == "highway":
        sizes |= {"K": 16, "T": 450}  # or its input would be wide
    return bounded_layer(variant, dtype, **sizes)


def assert_equal(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert torch.equal(value, expected[name]), name


def count_threads():
    """The threads of this process; one that ended is listed for a moment longer."""
    counts = []
    for _ in range(20):
        counts.append(len(os.listdir(TASKS)))
        sleep(0.001)
    return min(counts)


class Counter(Thread):
    """Counts this process's threads, itself included, until it is stopped."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.stopped = 0, Event()

    def run(self):
        while not self.stopped.is_set():
            self.most = max(self.most, len(os.listdir(TASKS)))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stopped.set()
        self.join()


# -- the same numbers ------------------------------------------------------------------


@variants
def test_two_runs_are_equal_to_the_last_bit(variant, dtype):
    layer = large_layer(variant, dtype)
    how = {"lengths": layer.lengths(), "backend": "cpu"}
    assert_equal(layer.run_and_gradients(**how), layer.run_and_gradients(**how))


@variants
@pytest.mark.parametrize("outputs", ["all", "last"])
def test_threads_change_no_bit(variant, outputs, monkeypatch):
    layer = large_layer(variant)
    how = {"lengths": layer.lengths(), "outputs": outputs, "backend": "cpu"}
    serial = layer.run_and_gradients(**how)
    for number in (2, 4):
        # the kernel alone gets them: torch's own would change bits of the loss
        monkeypatch.setattr(torch, "get_num_threads", lambda number=number: number)
        assert_equal(layer.run_and_gradients(**how), serial)


@variants
def test_calls_at_the_same_time_do_not_meet(variant):
    layers = [bounded_layer(variant, N=9, T=40, d_s=2, seed=n) for n in range(8)]
    serial = [layer.run_and_gradients() for layer in layers]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            results = pool.map(Layer.run_and_gradients, layers)
            for result, expected in zip(results, serial, strict=True):
                assert_equal(result, expected)


# -- the threads -----------------------------------------------------------------------


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@on_linux
def test_threads_live_as_long_as_a_call(four_threads):
    layer = large_layer(VARIANTS[0])
    before = count_threads()
    expected = before + 1 + 3  # the counter and three beside the caller
    for _ in range(100):  # a call may be over before the counter has its turn
        with Counter() as counter:
            layer.run(outputs="last", backend="cpu")
        assert count_threads() == before
        if counter.most == expected:
            break
    assert counter.most == expected


@on_linux
def test_small_work_starts_no_thread(four_threads):
    layer = bounded_layer(VARIANTS[0], N=9, T=40, d_s=2)
    before = count_threads()
    with Counter() as counter:
        for _ in range(300):
            layer.run(outputs="last", backend="cpu")
    assert counter.most == before + 1


# Arrays are small enough that torch itself starts no threads: it hangs after a fork.
FORK = """
import os, signal, torch
from skpararnn.ops import rnn

def run():
    generator = torch.Generator().manual_seed(0)
    shapes = (64, 150, 3), (1, 96, 3), (1, 48, 2, 2), (1, 96)
    given = [0.3 * torch.randn(shape, generator=generator) for shape in shapes]
    given = [tensor.requires_grad_() for tensor in given]
    _, h_last = rnn(*given, outputs="last", backend="cpu")
    return [h_last, *torch.autograd.grad(h_last, given, torch.ones_like(h_last))]

torch.set_num_threads(2)
expected = run()
child = os.fork()
if child == 0:
    signal.alarm(30)  # ends it if it hangs
    same = all(map(torch.equal, run(), expected))
    os._exit(0 if same else 1)
_, status = os.waitpid(child, 0)
print("child:", os.waitstatus_to_exitcode(status))
assert all(map(torch.equal, run(), expected))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_computes_the_same():
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "child: 0\n"
