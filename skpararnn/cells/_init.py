"""First values of a layer's parameters.

Every number is drawn from the generator that is handed in, in float64 and on the
generator's device: a seed gives the same model in every dtype and on every device, and
no global generator is touched.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

# rotation and jordan: memories that fade by at most a fifth and by at least a bit
GAMMA_MIN, GAMMA_MAX = 0.8, 1.0


class Init(NamedTuple):
    """One way to initialise a layer."""

    blocks: Callable  # (shape, generator) -> weight_h
    bias: Callable  # (gates, d, signs, t_max, generator) -> (len(gates), d)


def check_init(init):
    """Return the row of `INITS` that `init` names; a callable gives the blocks."""
    if callable(init):
        return Init(_checked(init), uniform_bias)
    if init not in tuple(INITS):
        names = ", ".join(map(repr, INITS))
        raise ValueError(f"init must be one of {names} or a callable; got {init!r}")
    return INITS[init]


def check_generator(generator):
    """Return `generator`, or for None a new one, seeded by the operating system."""
    if generator is None:
        generator = torch.Generator()
        generator.seed()
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            "generator must be a torch.Generator, such as "
            f"torch.Generator().manual_seed(0), or None; got {generator!r}"
        )
    return generator


def uniform_within(bound, shape, generator):
    """Draw from U(-bound, bound)."""
    return bound * (2.0 * _rand(shape, generator) - 1.0)


def uniform(shape, generator):
    """Blocks from U(-1/sqrt(d_s), 1/sqrt(d_s)), at K = 1 torch's own default.

    The bound is the block's own, not 1/sqrt(d): with the latter a small block would
    forget within a step.
    """
    return uniform_within(1.0 / math.sqrt(shape[-1]), shape, generator)


def orthogonal(shape, generator):
    """Every block of every gate is an orthogonal matrix, uniformly drawn.

    The Q factor of a normal matrix, with the signs that make it unique (the diagonal of
    R is positive); only then is its distribution uniform.
    """
    normal = torch.randn(
        shape, generator=generator, device=generator.device, dtype=torch.float64
    )
    q, r = torch.linalg.qr(normal)
    signs = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    return q * signs[..., None, :]


def identity(shape, generator):
    """Every block of every gate is the identity."""
    eye = torch.eye(shape[-1], device=generator.device, dtype=torch.float64)
    return eye.expand(shape).clone()


def rotation(shape, generator):
    """Damped rotations: 2x2 blocks gamma * Rot(theta) along each block's diagonal.

    gamma is uniform on [0.8, 1), theta uniform on (0, pi]. For odd d_s the last unit is
    one real eigenvalue, uniform on (-1, -0.8] and [0.8, 1).
    """
    blocks = _zeros(shape, generator)
    _fill_rotations(blocks, 0, generator)
    return blocks


def jordan(shape, generator):
    """Feature types R-4 and C-2: 4x4 real Jordan blocks along each block's diagonal.

    They alternate along the layer, R-4 first. R-4 has one real eigenvalue, uniform on
    (-1, -0.8] and [0.8, 1), and ones above the diagonal. C-2 has two equal rotations
    gamma * Rot(theta) as in `rotation` and the 2x2 identity above them. Where d_s is no
    multiple of 4 the rest is as in `rotation`.

    Raises
    ------
    ValueError
        For d_s below 4.
    """
    R, K, d_s, _ = shape
    if d_s < 4:
        raise ValueError(f"init='jordan' needs blocks of size 4 or more; got d_s={d_s}")
    blocks, fours = _zeros(shape, generator), d_s // 4
    for k in range(K):
        for n in range(fours):
            four = slice(4 * n, 4 * n + 4)
            fill = _real_jordan if (k * fours + n) % 2 == 0 else _complex_jordan
            blocks[:, k, four, four] = fill(R, generator)
    _fill_rotations(blocks, 4 * fours, generator)
    return blocks


def uniform_bias(gates, d, signs, t_max, generator):
    """Biases from U(-1/sqrt(d), 1/sqrt(d)), as a dense layer of width d has them."""
    return uniform_within(1.0 / math.sqrt(d), (len(gates), d), generator)


def chrono_bias(gates, d, signs, t_max, generator):
    """Biases that spread the memories of the units over 2 to t_max steps.

    With zero input and state a gate that keeps 1 - 1/T of the state forgets in T steps,
    so its bias is log(u), u uniform on (1, t_max - 1) per unit; a gate that writes gets
    -log(u) with the same u; all others get 0 (Tallec and Ollivier 2018, equation 16;
    for GRU and LRU from the same principle).

    Raises
    ------
    ValueError
        For a cell without gates, and for t_max not above 2.
    """
    if not signs:
        raise ValueError("init='chrono' sets the biases of gates; this cell has none")
    if t_max is None or not t_max > 2:
        raise ValueError(
            "init='chrono' needs t_max, the number of steps of the longest training "
            f"sequence, above 2; got t_max={t_max!r}"
        )
    log_u = torch.log(1.0 + (t_max - 2.0) * _rand((d,), generator))
    return torch.stack([signs.get(gate, 0) * log_u for gate in gates])


INITS = {
    "uniform": Init(uniform, uniform_bias),
    "orthogonal": Init(orthogonal, uniform_bias),
    "identity": Init(identity, uniform_bias),
    "rotation": Init(rotation, uniform_bias),
    "jordan": Init(jordan, uniform_bias),
    "chrono": Init(uniform, chrono_bias),
}


def _checked(init):
    def blocks(shape, generator):
        values = _real_tensor(init(shape, generator))
        if values.shape != shape:
            raise ValueError(
                f"init returned shape {tuple(values.shape)}; expected "
                f"(R, K, d_s, d_s) = {tuple(shape)}"
            )
        if not values.isfinite().all():
            raise ValueError("init returned NaN or infinity; blocks must be finite")
        return values.detach().clone()

    return blocks


def _real_tensor(values):
    """What a callable returned, as float64."""
    try:
        values = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"init returned {type(values)}; expected a tensor or an array of numbers"
        ) from None
    if values.is_complex():
        raise TypeError(f"init returned {values.dtype}; blocks must be real")
    return values.to(torch.float64)


def _rand(shape, generator):
    return torch.rand(
        shape, generator=generator, device=generator.device, dtype=torch.float64
    )


def _zeros(shape, generator):
    return torch.zeros(shape, device=generator.device, dtype=torch.float64)


def _gammas(shape, generator):
    return GAMMA_MIN + (GAMMA_MAX - GAMMA_MIN) * _rand(shape, generator)


def _real_eigenvalues(shape, generator):
    signs = torch.where(_rand(shape, generator) < 0.5, -1.0, 1.0)
    return signs * _gammas(shape, generator)


def _rotations(shape, generator):
    """Matrices gamma * Rot(theta) of the given leading shape."""
    gamma = _gammas(shape, generator)
    theta = math.pi * (1.0 - _rand(shape, generator))
    cos, sin = gamma * torch.cos(theta), gamma * torch.sin(theta)
    return torch.stack([cos, -sin, sin, cos], dim=-1).unflatten(-1, (2, 2))


def _fill_rotations(blocks, start, generator):
    """Fill the diagonals from unit `start` on; the last unit may be left alone."""
    leading, d_s = blocks.shape[:2], blocks.shape[2]
    for j in range(start, d_s - 1, 2):
        blocks[:, :, j : j + 2, j : j + 2] = _rotations(leading, generator)
    if (d_s - start) % 2:
        blocks[:, :, -1, -1] = _real_eigenvalues(leading, generator)


def _real_jordan(R, generator):
    """J_4(lambda) for each of R gates."""
    diagonal = _real_eigenvalues((R, 1), generator).expand(R, 4)
    return torch.diag_embed(diagonal) + torch.diag_embed(
        torch.ones_like(diagonal[:, 1:]), offset=1
    )


def _complex_jordan(R, generator):
    """C_2(gamma, theta) for each of R gates."""
    blocks, pair = _zeros((R, 4, 4), generator), _rotations((R,), generator)
    blocks[:, :2, :2] = blocks[:, 2:, 2:] = pair
    blocks[:, 0, 2] = blocks[:, 1, 3] = 1.0
    return blocks
