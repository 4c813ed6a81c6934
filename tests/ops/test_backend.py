"""Which implementation runs."""

import sys
import warnings
from types import SimpleNamespace

import pytest
import torch

from skpararnn import kernels
from skpararnn.cells import CELLS
from skpararnn.kernels import cpu
from skpararnn.ops import _backend
from skpararnn.ops._backend import choose

from .layers import VARIANTS, Layer

ON_CPU = torch.zeros(1, 1, 1)
ELSEWHERE = ON_CPU.to("meta")
BLOCKS = torch.zeros(1, 1, 2, 2)
BOTH = {"cpu": abs, "reference": len}
ON_CUDA = SimpleNamespace(device=torch.device("cuda:0"))  # choose() looks at no more
ALL = {"cpu": abs, "triton": max, "reference": len}


@pytest.fixture
def no_library(monkeypatch):
    """As it is where no compiler was found at install."""
    from skpararnn.kernels.cpu import _library

    monkeypatch.setattr(_library, "_find", lambda: (None, "install a C++ compiler"))
    monkeypatch.setattr(_library, "_warned", False)


def test_auto_takes_the_kernel_where_it_can(kernel):
    assert choose("auto", ON_CPU, BLOCKS, BOTH) is abs


@pytest.mark.parametrize("x", [ON_CPU, ELSEWHERE], ids=["cpu", "meta"])
def test_auto_always_finds_an_implementation(x):
    with warnings.catch_warnings(action="error"):
        assert choose("auto", x, BLOCKS, {"reference": len}) is len


def test_auto_falls_back_without_a_word_on_another_device(no_library):
    assert choose("auto", ELSEWHERE, BLOCKS, BOTH) is len


def test_auto_says_once_that_there_is_no_library(no_library):
    with pytest.warns(UserWarning, match="without its fast CPU kernels.*C\\+\\+ comp"):
        assert choose("auto", ON_CPU, BLOCKS, BOTH) is len
    assert (
        choose("auto", ON_CPU, BLOCKS, BOTH) is len
    )  # a second warning would be an error


def test_a_named_backend_is_that_one(kernel):
    assert choose("cpu", ON_CPU, BLOCKS, BOTH) is abs
    assert choose("reference", ON_CPU, BLOCKS, BOTH) is len


def test_the_kernel_is_refused_without_a_library(no_library):
    with pytest.raises(ValueError, match=r"backend='cpu' .*install a C\+\+ compiler"):
        choose("cpu", ON_CPU, BLOCKS, BOTH)


def test_the_kernel_is_refused_on_another_device():
    with pytest.raises(ValueError, match="backend='cpu' needs CPU tensors, got meta"):
        choose("cpu", ELSEWHERE, BLOCKS, BOTH)


def test_a_backend_that_the_op_lacks_is_refused():
    with pytest.raises(ValueError, match=r"backend='cpu' .*; use 'reference'"):
        choose("cpu", ON_CPU, BLOCKS, {"reference": len})


@pytest.fixture
def triton(monkeypatch):
    """As it is on a machine with a GPU, for blocks of at most 8 units."""
    stub = SimpleNamespace(
        MOST_WEIGHTS=64, kernel_for=lambda R, d_s: R * d_s**2 <= 64 or None
    )
    monkeypatch.setattr(_backend, "_find_triton", lambda: (stub, None))


def test_auto_takes_triton_on_cuda(triton):
    assert choose("auto", ON_CUDA, BLOCKS, ALL) is max
    assert choose("triton", ON_CUDA, BLOCKS, ALL) is max
    assert choose("reference", ON_CUDA, BLOCKS, ALL) is len


def test_triton_is_refused_on_another_device(triton):
    with pytest.raises(ValueError, match="'triton' needs CUDA tensors, got cpu"):
        choose("triton", ON_CPU, BLOCKS, ALL)


@pytest.mark.parametrize(("R", "most"), [(1, 8), (3, 4), (4, 4)])
def test_triton_is_refused_for_larger_blocks(R, most, triton):
    large = torch.zeros(R, 1, most + 1, most + 1)
    refusal = f"'triton' runs up to {most} units a block with {R} rec.*d_s={most + 1}"
    with pytest.raises(ValueError, match=refusal):
        choose("triton", ON_CUDA, large, ALL)
    assert choose("auto", ON_CUDA, large, ALL) is len


def test_without_triton_cuda_runs_the_reference(monkeypatch):
    monkeypatch.setitem(sys.modules, "skpararnn.kernels.triton", None)
    monkeypatch.delattr(kernels, "triton", raising=False)
    monkeypatch.setattr(_backend, "_find_triton", _backend._find_triton.__wrapped__)
    with pytest.raises(ValueError, match="needs triton, which comes with torch on Li"):
        choose("triton", ON_CUDA, BLOCKS, ALL)
    assert choose("auto", ON_CUDA, BLOCKS, ALL) is len


def test_transforms_on_cuda_are_left_to_the_reference(triton, monkeypatch):
    monkeypatch.setattr(_backend, "_is_transformed", lambda: True)
    with pytest.raises(ValueError, match=r"'triton' has no torch\.func transforms"):
        choose("triton", ON_CUDA, BLOCKS, ALL)
    assert choose("auto", ON_CUDA, BLOCKS, ALL) is len


@pytest.mark.parametrize("name", ["cuda", None, ["reference"]])
def test_unknown_backend_lists_the_names(name):
    with pytest.raises(ValueError, match="must be one of 'auto', 'cpu', 'triton', "):
        choose(name, ON_CPU, BLOCKS, BOTH)


@pytest.mark.parametrize("cell", CELLS)
def test_auto_is_the_kernel_for_every_op(cell, kernel, monkeypatch):
    calls, run = [], cpu.forward
    monkeypatch.setattr(cpu, "forward", lambda call: calls.append(call) or run(call))
    variant = next(variant for variant in VARIANTS if variant[0] == cell)
    layer = Layer(variant)
    assert torch.equal(layer.run()[0], layer.run(backend="cpu")[0])
    assert len(calls) == 2
    layer.run(backend="reference")
    assert len(calls) == 2


@pytest.mark.parametrize("cell", CELLS)
def test_every_op_runs_without_a_library(cell, no_library):
    variant = next(variant for variant in VARIANTS if variant[0] == cell)
    layer = Layer(variant)
    with pytest.warns(UserWarning, match="without its fast CPU kernels"):
        h, _ = layer.run()
    assert torch.equal(h, layer.run(backend="reference")[0])
