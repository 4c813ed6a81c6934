"""The table of cells, and that a row of it is all that a new cell needs."""

from functools import partial

import pytest
import torch
from tolerances import assert_close

from skpararnn.cells import CELLS, BlockRecurrentCell, CellSpec
from skpararnn.nets import RecurrentNet
from skpararnn.ops._backend import choose
from skpararnn.ops._checks import check_layer
from skpararnn.ops._scan import blank_padding, project, scan, stack_gates


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


# -- a cell made elsewhere: h + g (n - h), with a gate g that sees no state ------------


def leaky(
    x,
    weight_x,
    weight_h,
    bias,
    *,
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
    run = choose(backend, {"reference": _leaky})
    h, (h_last,) = run(x, weight_x, weight_h, bias, loop)
    return h, h_last


def _leaky(x, weight_x, weight_h, bias, loop):
    p = project(blank_padding(x, loop.lengths), weight_x, bias, K=weight_h.shape[1])
    p_g, p_n = p.chunk(2, dim=1)
    step = partial(_step, u=stack_gates(weight_h))
    return scan(step, (torch.sigmoid(p_g), p_n), loop)


def _step(g, p, h, *, u):
    n = torch.tanh(torch.baddbmm(p, u, h))
    return (h + g * (n - h),)


@pytest.fixture
def leaky_cell(monkeypatch):
    row = CellSpec(leaky, gates="gn", recurrent="n", biased="gn", chrono={"g": -1})
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
