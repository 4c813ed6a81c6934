"""The table of cells, and that a row of it is all that a new cell needs."""

import inspect
from functools import partial

import pytest
import torch
from tolerances import assert_close

from skpararnn.cells import CELLS, BlockRecurrentCell, CellSpec
from skpararnn.nets import RecurrentNet
from skpararnn.ops._backend import choose
from skpararnn.ops._checks import check_layer
from skpararnn.ops._loop import blank_padding, project, run_loop, stack_gates


@pytest.mark.parametrize("cell", CELLS)
def test_row_is_consistent(cell):
    spec = CELLS[cell]
    gates = set(spec.gates)
    assert len(gates) == len(spec.gates)
    assert set(spec.recurrent) <= gates
    assert set(spec.biased) <= gates
    assert set(spec.chrono) <= set(spec.biased)
    assert set(spec.chrono.values()) <= {-1, 1}
    assert spec.forget in {"", *spec.biased}
    assert spec.highway in {"", *spec.gates}
    assert set(spec.extra_bias.values()) <= set(spec.options)
    assert spec.states[0] == "h"


@pytest.mark.parametrize("cell", CELLS)
def test_defaults_of_options_are_those_of_the_op(cell):
    parameters = inspect.signature(CELLS[cell].op).parameters
    for name, values in CELLS[cell].options.items():
        assert values[0] is parameters[name].default


# -- a cell made elsewhere: h + g (n - h), with a gate g that sees no state; with
# gating="closed" it writes where g is small ------------------------------------------


def leaky(
    x,
    weight_x,
    weight_h,
    bias,
    *,
    gating="open",
    h0=None,
    lengths=None,
    reverse=False,
    outputs="all",
    backend="auto",
):
    loop = check_layer(
        x,
        weight_x,
        weight_h,
        bias,
        gates="gn",
        recurrent="n",
        states={"h0": h0},
        lengths=lengths,
        reverse=reverse,
        outputs=outputs,
    )
    run = choose(backend, x, weight_h, {"reference": _leaky})
    h, (h_last,) = run(x, weight_x, weight_h, bias, gating, loop)
    return h, h_last


def _leaky(x, weight_x, weight_h, bias, gating, loop):
    p = project(blank_padding(x, loop.lengths), weight_x, bias, K=weight_h.shape[1])
    p_g, p_n = p.chunk(2, dim=1)
    p_g = -p_g if gating == "closed" else p_g
    step = partial(_step, u=stack_gates(weight_h))
    return run_loop(step, (torch.sigmoid(p_g), p_n), loop)


def _step(g, p, h, *, u):
    n = torch.tanh(torch.baddbmm(p, u, h))
    return (h + g * (n - h),)


@pytest.fixture
def leaky_cell(monkeypatch):
    row = CellSpec(
        leaky,
        gates="gn",
        recurrent="n",
        biased="gn",
        options={"gating": ("open", "closed")},
        chrono={"g": -1},
    )
    monkeypatch.setitem(CELLS, "leaky", row)
    return "leaky"


def test_a_new_row_is_a_layer(leaky_cell):
    generator = torch.Generator().manual_seed(0)
    layer = BlockRecurrentCell(
        2,
        cell=leaky_cell,
        d_s=3,
        K=4,
        init="chrono",
        t_max=10,
        dtype=torch.float64,
        generator=generator,
    )
    x = torch.randn(5, 6, 2, generator=generator, dtype=torch.float64)
    h, (h_last,) = layer(x, torch.tensor([6, 1, 3, 6, 2]))
    dense = torch.block_diag(*layer.recurrent_blocks()[0])
    p = torch.einsum("gdm,nm->gnd", layer.weight_x, x[:, 0]) + layer.bias[:, None]
    assert_close(h[:, 0], p[0].sigmoid() * p[1].tanh())
    p = torch.einsum("gdm,nm->gnd", layer.weight_x, x[:, 1]) + layer.bias[:, None]
    n = torch.tanh(p[1] + h[:, 0] @ dense.T)
    second = h[:, 0] + p[0].sigmoid() * (n - h[:, 0])
    assert_close(h[0, 1], second[0])
    assert_close(h_last[1], h[1, 0])


def test_a_new_row_is_a_net(leaky_cell):
    net = RecurrentNet(
        2, 3, cell=leaky_cell, d_s=[1, 2], K=2, n_layers=2, bidirectional=True
    )
    y = net(torch.zeros(5, 6, 2), torch.tensor([6, 1, 3, 6, 2]))
    assert y.shape == (5, 3)
    y.sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_the_option_of_a_new_row_reaches_its_op(leaky_cell):
    generator = torch.Generator().manual_seed(0)
    net = RecurrentNet(
        2, 3, cell=leaky_cell, d_s=2, K=2, gating="closed", generator=generator
    )
    (layer,) = net.layers[0]
    assert layer.options == {"gating": "closed"}
    assert BlockRecurrentCell(2, cell=leaky_cell).options == {"gating": "open"}
    x = torch.randn(5, 6, 2, generator=generator)
    h = net.hidden_states(x)
    layer.options["gating"] = "open"
    assert not torch.allclose(net.hidden_states(x), h)


def test_the_option_of_a_new_row_is_checked(leaky_cell):
    for cell in CELLS:  # the others ignore it, but not a value that is none
        BlockRecurrentCell(2, cell=cell, gating="closed", activation="relu")
        with pytest.raises(ValueError, match="gating must be one of 'open', 'closed'"):
            RecurrentNet(2, 3, cell=cell, gating="ajar")
