"""The functions on NumPy arrays: single steps against the plain loop, and tanh."""

import ctypes
import gc

import numpy as np
import pytest
import tolerances
import torch

from skpararnn import ops
from skpararnn.kernels import cpu

pytestmark = pytest.mark.skipif(
    cpu.available() is not None, reason=f"{cpu.available()}"
)

# code of the kernels: the op that it is, and its options
OPS = {
    "rnn_tanh": (ops.rnn, {"activation": "tanh"}),
    "rnn_relu": (ops.rnn, {"activation": "relu"}),
    "rnn_sigmoid": (ops.rnn, {"activation": "sigmoid"}),
    "rnn_identity": (ops.rnn, {"activation": "identity"}),
    "lstm": (ops.lstm, {}),
    "gru_after": (ops.gru, {"reset_after": True}),
    "gru_before": (ops.gru, {"reset_after": False}),
    "lru_tanh": (ops.lru, {"candidate": "tanh"}),
    "lru_highway": (ops.lru, {"candidate": "highway"}),
}
DTYPES = (np.float32, np.float64)
T = 6


def parameters(cell, K, d_s, d_in, dtype, seed=0):
    """Arguments of a stepper, and a sequence for it."""
    rng = np.random.default_rng(seed)
    G, R = cpu.GATES[cell]
    d = K * d_s
    d_in = d if cell == "lru_highway" else d_in
    shapes = {"weight_x": (G, d, d_in), "weight_h": (R, K, d_s, d_s), "bias": (G, d)}
    shapes["h0"] = (d,)
    if cell == "lstm":
        shapes["c0"] = (d,)
    if cell == "gru_after":
        shapes["bias_q"] = (d,)
    shapes["x"] = (T, d_in)
    arrays = {name: 0.5 * rng.normal(size=shape) for name, shape in shapes.items()}
    arrays["weight_h"] /= np.sqrt(d_s)  # or cells without a bound would explode
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    return arrays, arrays.pop("x")


def run_op(cell, arrays, x):
    """The plain loop in float64: h of all steps ``(T, d)``, last states."""
    op, options = OPS[cell]
    tensors = {name: torch.tensor(a, dtype=torch.float64) for name, a in arrays.items()}
    if cell == "lru_highway":  # the op has a row c, which this candidate ignores
        for name in ("weight_x", "bias"):
            tensors[name] = torch.cat([torch.zeros_like(tensors[name]), tensors[name]])
    x = torch.tensor(x, dtype=torch.float64)[None]
    h, last = op(x, **tensors, **options, backend="reference")
    last = last if isinstance(last, tuple) else (last,)
    return h[0].numpy(), [state[0].numpy() for state in last]


def assert_close(actual, expected):
    tolerances.assert_close(torch.from_numpy(actual), torch.from_numpy(expected))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("K", "d_s", "d_in"), [(3, 2, 2), (17, 1, 1), (5, 3, 4), (9, 4, 8), (2, 16, 3)]
)
@pytest.mark.parametrize("cell", cpu.CELL_CODES)
def test_steps_are_those_of_the_plain_loop(cell, K, d_s, d_in, dtype):
    arrays, x = parameters(cell, K, d_s, d_in, dtype)
    expected, last = run_op(cell, arrays, x)
    stepper = cpu.Stepper(cell, **arrays)
    steps = np.stack([stepper.step(x_t).copy() for x_t in x])
    assert steps.dtype == dtype
    assert_close(steps, expected)
    h, c = stepper.state()
    assert_close(h, last[0])
    assert (h == stepper.h).all()
    assert (c is not None) == (cell == "lstm")
    if c is not None:
        assert_close(c, last[1])


def test_parameters_are_copied_and_state_is_a_copy():
    arrays, x = parameters("lstm", 3, 2, 2, np.float32)
    stepper, other = cpu.Stepper("lstm", **arrays), cpu.Stepper("lstm", **arrays)
    for array in arrays.values():
        array[...] = np.nan
    for x_t in x:
        stepper.step(x_t)
        other.step(x_t)
        for copy in other.state():
            copy[...] = np.nan
    assert np.isfinite(stepper.h).all()
    assert (stepper.h == other.h).all()


@pytest.mark.parametrize("cell", ["lstm", "gru_after"])
def test_first_states_and_bias_q_default_to_zero(cell):
    arrays, x = parameters(cell, 3, 2, 2, np.float64)
    required = {name: arrays[name] for name in ("weight_x", "weight_h", "bias")}
    zeros = {name: np.zeros(6) for name in arrays.keys() - required.keys()}
    implied, given = (
        cpu.Stepper(cell, **required),
        cpu.Stepper(cell, **required, **zeros),
    )
    assert (implied.step(x[0]) == given.step(x[0])).all()


def test_first_state_is_there_before_the_first_step():
    arrays, _ = parameters("lstm", 3, 2, 2, np.float64)
    stepper = cpu.Stepper("lstm", **arrays)
    h, c = stepper.state()
    assert (h == arrays["h0"]).all()
    assert (c == arrays["c0"]).all()
    assert (stepper.h == arrays["h0"]).all()


def test_x_can_be_filled_in_place():
    arrays, x = parameters("gru_after", 3, 2, 2, np.float32)
    one, other = cpu.Stepper("gru_after", **arrays), cpu.Stepper("gru_after", **arrays)
    for x_t in x:
        one.step(x_t)
        other.x[...] = x_t
        other.advance()
    assert (one.h == other.h).all()


def test_arrays_of_any_layout_are_read():
    arrays, x = parameters("lstm", 3, 2, 2, np.float32)
    strided = {name: np.asfortranarray(array) for name, array in arrays.items()}
    plain, other = cpu.Stepper("lstm", **arrays), cpu.Stepper("lstm", **strided)
    assert (plain.step(x[0]) == other.step(x[0])).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "elman"}, "cell='elman' is not one of rnn_tanh, "),
        ({"weight_h": np.zeros((4, 3, 2))}, r"weight_h must be \(R, K, d_s, d_s\)"),
        ({"weight_h": np.zeros((1, 3, 2, 2))}, r"weight_h must be \(4, 3, 2, 2\) of"),
        ({"weight_h": np.zeros((4, 3, 2, 3))}, r"got \(4, 3, 2, 3\) of float64"),
        ({"weight_x": np.zeros((4, 5, 2))}, r"weight_x must be \(4, 6, 2\) of float64"),
        ({"bias": np.zeros((4, 6), np.float32)}, r"got \(4, 6\) of float32"),
        ({"c0": np.zeros((1, 6))}, r"c0 must be \(6,\) .*, got \(1, 6\) of float64"),
        ({"weight_h": np.zeros((4, 3, 2, 2), int)}, "float32 or float64, got int64"),
    ],
)
def test_what_does_not_fit_is_refused_before_memory_is_read(changes, message):
    arrays, _ = parameters("lstm", 3, 2, 2, np.float64)
    with pytest.raises(ValueError, match=message):
        cpu.Stepper(**{"cell": "lstm"} | arrays | changes)


# -- tanh ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 41)])
def test_tanh(dtype, shape):
    x = np.random.default_rng(0).normal(size=shape, scale=3).astype(dtype)
    y = cpu.tanh(x)
    assert (y.shape, y.dtype) == (shape, x.dtype)
    assert_close(y, np.tanh(x.astype(np.float64)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tanh_from_end_to_end(dtype):
    x = np.linspace(-30, 30, 100_001, dtype=dtype)
    y = cpu.tanh(x)
    assert_close(y, np.tanh(x.astype(np.float64)))
    assert (np.abs(y) <= 1).all()
    assert (y == -cpu.tanh(-x)).all()
    assert np.isnan(cpu.tanh(np.array([np.nan], dtype))).all()


def test_tanh_reads_any_layout_and_refuses_other_types():
    x = np.random.default_rng(0).normal(size=(6, 8))
    assert (cpu.tanh(x[::2, ::3]) == cpu.tanh(x)[::2, ::3]).all()
    with pytest.raises(ValueError, match="must be float32 or float64, got int64"):
        cpu.tanh(np.arange(3))


def test_a_step_writes_no_further_than_its_own_arrays():
    """Guards around h and x, and odd sizes: a vector is wider than what is left."""
    arrays, x = parameters("lstm", 5, 3, 3, np.float32)
    stepper = cpu.Stepper("lstm", **arrays)
    guarded = np.full(5 * 3 + 32, np.nan, np.float32)
    h = guarded[16:-16]
    memory = stepper._memory.ctypes.data
    cpu.load().stepper_step(memory, x[0].ctypes.data, ctypes.c_void_p(h.ctypes.data))
    assert np.isfinite(h).all()
    assert np.isnan(guarded[:16]).all()
    assert np.isnan(guarded[-16:]).all()


def test_a_step_can_be_taken_when_only_its_function_is_left():
    advance = cpu.Stepper("rnn_relu", *ones_and_zeros()).advance
    gc.collect()
    for _ in range(100):
        advance()


def test_the_buffers_of_a_stepper_cannot_be_replaced():
    stepper = cpu.Stepper("rnn_relu", *ones_and_zeros())
    with pytest.raises(AttributeError):
        stepper.x = np.ones(1)
    with pytest.raises(AttributeError):
        stepper.h = np.ones(4)


def ones_and_zeros():
    return np.ones((1, 4, 1)), np.zeros((1, 2, 2, 2)), np.zeros((1, 4))


def test_a_highway_step_needs_an_input_as_wide_as_the_layer():
    with pytest.raises(ValueError, match="needs d_in = d, got d_in=1 and d=4"):
        cpu.Stepper("lru_highway", *ones_and_zeros())
