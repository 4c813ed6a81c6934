"""What holds for every test: one thread, untouched global state, no lucky memory."""

import os
import random
import sys

# One thread, set before torch or NumPy load: results are promised bit for bit at one
# thread only, and the small products of these tests run fastest there. Another number
# in the environment wins.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest


@pytest.fixture(autouse=True)
def global_state_is_left_alone():
    """Fail the test that moves a state which belongs to the whole process."""
    before = _global_state()
    yield
    after = _global_state()
    loaded = before.keys() & after.keys()
    changed = sorted(name for name in loaded if before[name] != after[name])
    if changed:
        pytest.fail(f"the test changed {', '.join(changed)} for everybody")


def _global_state():
    """Global states by name, of the libraries that are loaded already."""
    state = {
        "random's generator": random.getstate(),
        "the working directory": os.getcwd(),
    }
    if numpy := sys.modules.get("numpy"):
        name, keys, *rest = numpy.random.get_state()
        state["NumPy's generator"] = name, keys.tobytes(), *rest
        state["NumPy's error handling"] = numpy.geterr()
    if torch := sys.modules.get("torch"):
        state["torch's generator"] = torch.get_rng_state().numpy().tobytes()
        state["torch's default dtype"] = torch.get_default_dtype()
        state["torch's threads"] = torch.get_num_threads()
        state["torch's gradient mode"] = torch.is_grad_enabled()
        state["torch's determinism"] = torch.are_deterministic_algorithms_enabled()
    return state


@pytest.fixture(autouse=True)
def empty_memory_holds_nan(global_state_is_left_alone, monkeypatch):
    """Fill ``torch.empty`` and its kin, so that a cell nobody writes is noticed.

    The functions are wrapped, because torch's own switch for this works only with
    deterministic algorithms, and with those the tests would see another torch than the
    users do. A test that runs before anything imported torch goes without.

    The other fixture is asked for first, so that it looks again after `monkeypatch` has
    put everything back.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    owners = {
        torch: ("empty", "empty_like", "empty_strided"),
        torch.Tensor: ("new_empty",),
    }
    for owner, names in owners.items():
        for name in names:
            monkeypatch.setattr(owner, name, _filled_with_nan(getattr(owner, name)))


def _filled_with_nan(empty):
    def filled(*args, **kwargs):
        tensor = empty(*args, **kwargs)
        if tensor.is_floating_point():
            tensor.data.fill_(float("nan"))
        return tensor

    return filled
