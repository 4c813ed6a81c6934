"""Bounded functions, written so that Triton's interpreter runs them too.

That leaves out ``tl.tanh``, libdevice and inline assembly. Nothing overflows, and NaN
passes through.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)

# Exponents beyond which sigmoid and tanh no longer change, while exp2 is still finite.
BOUND_32 = tl.constexpr(120.0)
BOUND_64 = tl.constexpr(1000.0)


@triton.jit
def bounded_exp2(x):
    """exp2(x) up to the bound."""
    bound = BOUND_64 if x.dtype == tl.float64 else BOUND_32
    return tl.exp2(tl.minimum(x, bound, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + bounded_exp2(x * -LOG2_E))


@triton.jit
def tanh(x):
    """2 / (1 + exp(-2x)) - 1, with an absolute error of 2e-7 in float32.

    The quotient of polynomials in the CPU kernel keeps the digits of a small x too, but
    has three times as many operations, and here each of them is waited for.
    """
    return 2.0 / (1.0 + bounded_exp2(x * (-2.0 * LOG2_E))) - 1.0
