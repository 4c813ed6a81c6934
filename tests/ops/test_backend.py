"""Which implementation runs."""

import pytest
import torch

from skpararnn.cells import CELLS
from skpararnn.kernels import cpu
from skpararnn.ops._backend import BACKENDS, choose

from .layers import VARIANTS, Layer

X = torch.zeros(1, 1, 1)
BOTH = {"reference": abs, "cpu": max}


def test_auto_takes_the_kernel_where_there_is_one():
    assert choose("auto", X, BOTH) is max
    assert choose("auto", X, {"reference": abs}) is abs
    assert choose("auto", X.to("meta"), BOTH) is abs


def test_auto_warns_once_without_a_kernel(monkeypatch):
    missing = cpu.available() or "no CPU kernel was compiled"
    monkeypatch.setattr(cpu._library, "_warned", False)
    monkeypatch.setattr(cpu._library, "available", lambda: missing)
    monkeypatch.setattr(cpu, "available", lambda: missing)
    with pytest.warns(UserWarning, match="no CPU kernel was compiled"):
        assert choose("auto", X, BOTH) is abs
    assert choose("auto", X, BOTH) is abs
    with pytest.raises(ValueError, match="backend='cpu' cannot run: no CPU kernel"):
        choose("cpu", X, BOTH)


@pytest.mark.parametrize("name", BOTH)
def test_a_named_backend_is_that_one(name):
    assert choose(name, X, BOTH) is BOTH[name]


def test_a_refusal_says_why():
    with pytest.raises(ValueError, match="needs CPU tensors, got meta: move them"):
        choose("cpu", X.to("meta"), BOTH)
    with pytest.raises(ValueError, match="does not know this cell"):
        choose("cpu", X, {"reference": abs})


@pytest.mark.parametrize("name", ["cuda", None, ["reference"]])
def test_unknown_backend_lists_the_names(name):
    names = "backend must be one of 'auto', 'cpu', 'reference'"
    with pytest.raises(ValueError, match=names):
        choose(name, X, BOTH)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_op_takes_every_backend(cell, backend):
    variant = next(variant for variant in VARIANTS if variant[0] == cell)
    h, _ = Layer(variant).run(backend=backend)
    assert h.isfinite().all()
