"""A CUDA card that is made of the CPU, for the device logic of the estimators.

Tensors on it are tensors on the CPU. Its graphs do what those of CUDA do: they record
each operation with the very tensors and numbers it had, compute nothing while they
record, and repeat the operations on the same memory. So a learning rate, a step number
or a batch that is not read anew in each replay shows in the result.
"""

from contextlib import contextmanager

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from skpararnn.estimators import _device

FREE = 2**30  # bytes


class FakeCard:
    """What the tests set and look at."""

    def __init__(self):
        self.available = True
        self.n = 1
        self.forked = False
        self.free = FREE
        self.bfloat16 = True
        self.refuses_graphs = None  # the message of an error
        self.graphs = []
        self.n_pinned = 0
        self.n_returned = 0
        self.used = []  # devices, in the order of fits and predictions

    def patch(self, monkeypatch):
        for name, fake in {
            "is_available": lambda: self.available,
            "count": lambda: self.n if self.available else 0,
            "is_forked": lambda: self.forked,
            "as_torch": self.as_torch,
            "free_bytes": lambda device: self.free,
            "has_bfloat16": lambda device: self.bfloat16,
            "pin": self.pin,
            "current": self.current,
            "own_stream": self.current,
            "give_back_memory": self.give_back_memory,
            "Graph": self.make_graph,
        }.items():
            assert hasattr(_device, name)
            monkeypatch.setattr(_device, name, fake)

    def as_torch(self, device):
        assert device.startswith(("cpu", "cuda")), device
        return torch.device("cpu")

    def pin(self, tensor):
        self.n_pinned += 1
        return tensor.clone()

    @contextmanager
    def current(self, device):
        if device != "cpu":
            self.used.append(device)
        yield

    def give_back_memory(self):
        self.n_returned += 1

    def make_graph(self, work, generators):
        if self.refuses_graphs:
            raise RuntimeError(self.refuses_graphs)
        self.graphs.append(FakeGraph(work, generators))
        return self.graphs[-1]


class FakeGraph:
    """Records the operations of a piece of work, and repeats them."""

    def __init__(self, work, generators):
        states = [generator.get_state() for generator in generators]
        tape = Tape(generators)
        try:
            with tape:
                self._outputs = work()
        finally:
            tape.undo()
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)
        self.tape = tape
        self.n_replays = 0

    @torch.no_grad()
    def replay(self):
        self.n_replays += 1
        for function, args, kwargs, outputs in self.tape.calls:
            again = function(*args, **kwargs)
            for old, new in zip(tree_leaves(outputs), tree_leaves(again), strict=True):
                if isinstance(old, torch.Tensor) and old is not new:
                    old.copy_(new)
        return self._outputs


class Tape(TorchDispatchMode):
    """Every operation, with what it read and wrote; `undo` takes the writing back."""

    def __init__(self, generators):
        super().__init__()
        self.calls = []
        self._generators = generators
        self._before = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function.name()
        if name == "aten::_local_scalar_dense":
            raise RuntimeError("operation not permitted when stream is capturing")
        generator = kwargs.get("generator")
        if generator is not None and not self._is_registered(generator):
            raise RuntimeError("a generator was not registered with the graph")
        for written in _written(function, args, kwargs):
            self._before.append((written, written.detach().clone()))
        outputs = function(*args, **kwargs)
        self.calls.append((function, args, kwargs, outputs))
        return outputs

    def _is_registered(self, generator):
        # what comes in is another object with the same insides
        state = generator.get_state()
        return any(state.equal(known.get_state()) for known in self._generators)

    @torch.no_grad()
    def undo(self):
        for tensor, value in reversed(self._before):
            tensor.detach().copy_(value)


def _written(function, args, kwargs):
    """The tensors that an operation writes to."""
    for i, argument in enumerate(function._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        given = args[i] if i < len(args) else kwargs.get(argument.name)
        yield from (t for t in tree_leaves(given) if isinstance(t, torch.Tensor))


@pytest.fixture
def card(monkeypatch):
    """A machine with one card."""
    fake = FakeCard()
    fake.patch(monkeypatch)
    return fake
