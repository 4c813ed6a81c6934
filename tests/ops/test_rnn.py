"""Facts of the simple cell."""

import math

import pytest
import torch
from tolerances import assert_close

from skpararnn.ops import rnn


def rotation(gamma, theta):
    cos, sin = math.cos(theta), math.sin(theta)
    return gamma * torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)


def impulse(blocks, T, backend):
    """Response (T, d) to a 1 at step 0 that enters the first unit of every block."""
    K, d_s, _ = blocks.shape
    x = torch.zeros(1, T, 1, dtype=torch.float64)
    x[0, 0] = 1.0
    weight_x = torch.zeros(1, K, d_s, 1, dtype=torch.float64)
    weight_x[:, :, 0] = 1.0
    bias = torch.zeros(1, K * d_s, dtype=torch.float64)
    h, _ = rnn(
        x,
        weight_x.flatten(1, 2),
        blocks[None],
        bias,
        activation="identity",
        backend=backend,
    )
    return h[0]


def test_impulse_in_a_rotating_block_is_a_damped_oscillation(backend):
    pairs = [(0.9, 0.3), (0.5, 2.0), (1.0, math.pi / 2)]
    h = impulse(torch.stack([rotation(*pair) for pair in pairs]), T=30, backend=backend)
    j = torch.arange(30, dtype=torch.float64)
    for k, (gamma, theta) in enumerate(pairs):
        assert_close(h[:, 2 * k], gamma**j * torch.cos(j * theta))
        assert_close(h[:, 2 * k + 1], gamma**j * torch.sin(j * theta))


def test_impulse_in_a_diagonal_recurrence_decays_geometrically(backend):
    lam = torch.tensor([0.9, -0.5, 1.0, 0.0], dtype=torch.float64)
    h = impulse(lam[:, None, None], T=20, backend=backend)
    assert_close(h, lam ** torch.arange(20)[:, None])


def test_impulse_in_a_nilpotent_block_is_gone_after_its_size(backend):
    shift = torch.diag_embed(torch.ones(3, dtype=torch.float64), offset=-1)
    h = impulse(shift[None], T=6, backend=backend)
    assert torch.equal(h[:4], torch.eye(4, dtype=torch.float64))
    assert not h[4:].any()


def test_unknown_activation_is_named():
    ones = torch.ones(1, 1, 1)
    with pytest.raises(ValueError, match="activation must be one of 'tanh', 'relu'"):
        rnn(ones, ones, ones[None], ones[0], activation="softmax")
