"""Which implementation runs."""

import pytest

from skpararnn.cells import CELLS
from skpararnn.ops._backend import BACKENDS, choose

from .layers import VARIANTS, Layer


def test_auto_always_finds_an_implementation():
    assert choose("auto", {"reference": abs}) is abs


def test_a_named_backend_is_that_one():
    assert choose("reference", {"reference": abs}) is abs


@pytest.mark.parametrize("name", ["cuda", None, ["reference"]])
def test_unknown_backend_lists_the_names(name):
    with pytest.raises(ValueError, match="backend must be one of 'auto', 'reference'"):
        choose(name, {"reference": abs})


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_op_takes_every_backend(cell, backend):
    variant = next(variant for variant in VARIANTS if variant[0] == cell)
    h, _ = Layer(variant).run(backend=backend)
    assert h.isfinite().all()
