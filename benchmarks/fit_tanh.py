"""Fit the rational function that the CPU kernel uses as float tanh; print it.

tanh(x) ~ x P(x^2) / Q(x^2) on [0, BOUND], P and Q of degree 4 with P(0) = Q(0) = 1: a
tiny x comes back as it is. Linearised least squares, with weights that grow where the
relative error is large (Lawson's method), brings its maximum down to the minimax one.
Evaluated as x P / (P + x^2 E), where rounding errors of P partly cancel. Rounding to
float dominates: of random neighbours, the best coefficients are kept.
"""

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

BOUND = 7.9  # 1 - tanh(BOUND) = 2.7e-7; above it the kernel goes on to 1 and stops
DEGREE = 4
STEPS = 200


def fit(n_points=1500):
    """Coefficients of P and Q without the leading 1, float64, lowest degree first."""
    x = BOUND * np.sin(np.linspace(0, np.pi / 2, n_points + 1)[1:])
    z, y = x**2, np.tanh(x)
    # Chebyshev polynomials in z: powers would be far too ill-conditioned
    basis = z[:, None] * np.polynomial.chebyshev.chebvander(
        2 * z / BOUND**2 - 1, DEGREE - 1
    )
    columns = np.hstack([x[:, None] * basis, -y[:, None] * basis])
    weight, q = np.ones_like(x), np.ones_like(x)
    best = np.inf, None
    for _ in range(STEPS):
        row = np.sqrt(weight) / (q * y)
        scaled = columns * row[:, None]
        norm = np.linalg.norm(scaled, axis=0)
        solution = np.linalg.lstsq(scaled / norm, (y - x) * row)[0] / norm
        p, q = (1 + basis @ half for half in np.split(solution, 2))
        error = np.abs(x * p / (q * y) - 1)
        if error.max() < best[0]:
            best = error.max(), solution
        weight *= error / error.max() + 1e-3
        weight /= weight.sum()
    return [in_powers(half) for half in np.split(best[1], 2)]


def in_powers(coefficients):
    series = Chebyshev(coefficients, domain=[0, BOUND**2])
    return series.convert(kind=Polynomial).coef


def fma(a, b, c):
    """Return a b + c, rounded once where a is float32."""
    return (a.astype(float) * b + c).astype(a.dtype)


def evaluate(x, p, e):
    """Return x P / (P + z E), z = x^2, in the kernel's order of operations."""
    z = x * x
    top, rest = np.full_like(x, p[-1]), np.full_like(x, e[-1])
    for coefficient in [*p[-2::-1], 1]:
        top = fma(top, z, coefficient)
    for coefficient in e[-2::-1]:
        rest = fma(rest, z, coefficient)
    return x * top / fma(rest, z, top)


def largest_error(x, p, e):
    return np.abs(evaluate(x, p, e) - np.tanh(x.astype(float))).max()


def round_to_float(p, e, n_trials=3000):
    """Coefficients, float32, that make the error in float32 arithmetic small."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.5, BOUND, 20_000).astype(np.float32)
    best = np.concatenate([p, e]).astype(np.float32)
    error = largest_error(x, *np.split(best, 2))
    for _ in range(n_trials):
        ulps = rng.integers(-3, 4, best.size) * (rng.random(best.size) < 0.4)
        trial = best + ulps.astype(np.float32) * np.spacing(best)
        trial_error = largest_error(x, *np.split(trial, 2))
        if trial_error < error:
            best, error = trial, trial_error
    return np.split(best, 2)


def main():
    p, q = fit()
    e = q - p
    x = np.linspace(1e-4, BOUND, 2_000_000)
    print(f"largest error in float64: {largest_error(x, p, e):.2e}")
    p, e = round_to_float(p, e)
    for name, coefficients in ("P", p), ("E", e):
        print(name, *(f"{c:.9g}" for c in coefficients))
    print(f"in float32: {largest_error(x.astype(np.float32), p, e):.2e}")


if __name__ == "__main__":
    main()
