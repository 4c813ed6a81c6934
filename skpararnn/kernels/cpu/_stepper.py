"""The functions of the library that work on NumPy arrays: one step, and tanh."""

import ctypes
import functools

import numpy as np

from ._library import CELL_CODES, DONE, Scan, failure, load

# cell: its gates G, and the recurrent ones R among them
GATES = {
    "rnn_tanh": (1, 1),
    "rnn_relu": (1, 1),
    "rnn_sigmoid": (1, 1),
    "rnn_identity": (1, 1),
    "lstm": (4, 4),
    "gru_after": (3, 3),
    "gru_before": (3, 3),
    "lru_tanh": (2, 1),
    "lru_highway": (1, 1),
}

ALIGNMENT = 64  # bytes of the widest vector


class Stepper:
    """One sequence, step by step: the entry of the kernels for streaming.

    A stepper holds the parameters and the state of one row in the kernel's own layout,
    and the buffers of x and h. A step is one copy of x and one call.

    Parameters
    ----------
    cell : str
        A name of `CELL_CODES`.
    weight_x : ndarray of shape (G, d, d_in)
    weight_h : ndarray of shape (R, K, d_s, d_s)
    bias : ndarray of shape (G, d)
        As the op of the cell takes them, all float32 or all float64.
    bias_q : ndarray of shape (d,), default=None
        "gru_after" only; None for zeros.
    h0, c0 : ndarray of shape (d,), default=None
        First state, and that of the memory cell ("lstm" only); None for zeros.

    Attributes
    ----------
    x : ndarray of shape (d_in,)
        The input of the next step. What fills it in place may call `advance` instead of
        `step` and saves the copy.
    h : ndarray of shape (d,)
        The state after the last step.

    Raises
    ------
    ValueError
        Unknown cell, or a shape or dtype that does not fit; the message names both.
    RuntimeError
        There is no library; see `available`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpararnn.kernels.cpu import Stepper, available
    >>> weight_x, weight_h = np.ones((1, 4, 1)), np.zeros((1, 2, 2, 2))
    >>> if available() is None:
    ...     stepper = Stepper("rnn_relu", weight_x, weight_h, np.zeros((1, 4)))
    ...     assert stepper.step(np.array([3.0])).tolist() == [3.0] * 4
    """

    def __init__(self, cell, weight_x, weight_h, bias, bias_q=None, h0=None, c0=None):
        arrays = {"weight_x": weight_x, "weight_h": weight_h, "bias": bias}
        arrays |= {"bias_q": bias_q, "h0": h0, "c0": c0}
        arrays = {
            name: np.ascontiguousarray(array)
            for name, array in arrays.items()
            if array is not None
        }
        _check(cell, arrays)
        scan = _one_row(cell, arrays)
        self._library = load()
        self._memory = self._filled(scan)
        dtype = arrays["weight_h"].dtype
        self._x = np.zeros(scan.d_in, dtype)
        self._h = np.zeros(scan.K * scan.d_s, dtype)
        self._h[...] = arrays.get("h0", 0)
        self._c = np.zeros_like(self._h) if cell == "lstm" else None
        buffers = (self._memory, self._x, self._h)
        addresses = [buffer.ctypes.data for buffer in buffers]
        self.advance = functools.partial(self._library.stepper_step, *addresses)
        self.advance.buffers = buffers  # they live as long as someone can call it

    @property
    def x(self):
        """The input of the next step, (d_in,), to be filled in place."""
        return self._x

    @property
    def h(self):
        """The state after the last step, (d,)."""
        return self._h

    def step(self, x):
        """Read one step and return the new state.

        Parameters
        ----------
        x : array-like of shape (d_in,)
            Its shape is not checked.

        Returns
        -------
        h : ndarray of shape (d,)
            The stepper's own array: the next step writes into it.
        """
        self._x[...] = x
        self.advance()
        return self._h

    def state(self):
        """Return copies of the state, ``(d,)``, and of the memory cell, or None."""
        h, c = (None if a is None else np.empty_like(a) for a in (self._h, self._c))
        addresses = [None if a is None else a.ctypes.data for a in (h, c)]
        self._library.stepper_state(self._memory.ctypes.data, *addresses)
        return h, c

    def _filled(self, scan):
        """Memory in the kernel's layout, with the parameters and the first state."""
        size = self._library.stepper_bytes(ctypes.byref(scan))
        memory = _aligned(size)
        status = self._library.stepper_init(ctypes.byref(scan), memory.ctypes.data)
        if status != DONE:
            raise failure(status, scan)
        return memory


def tanh(x):
    """Tanh as the cells of the kernels compute it.

    Parameters
    ----------
    x : ndarray of float32 or float64, any shape

    Returns
    -------
    y : ndarray of the same shape and dtype

    Raises
    ------
    ValueError
        Another dtype; the message names it.
    RuntimeError
        There is no library; see `available`.
    """
    x = np.ascontiguousarray(x)
    _check_dtype("x", x)
    y = np.empty_like(x)
    load().tanh(x.itemsize, x.ctypes.data, y.ctypes.data, x.size)
    return y


def _one_row(cell, arrays):
    _, K, d_s, _ = arrays["weight_h"].shape
    return Scan(
        itemsize=arrays["weight_h"].itemsize,
        cell=CELL_CODES[cell],
        K=K,
        d_s=d_s,
        d_in=arrays["weight_x"].shape[2],
        N=1,
        T=1,
        chunk=1,
        **{name: array.ctypes.data for name, array in arrays.items()},
    )


def _aligned(size):
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


def _check(cell, arrays):
    """Every array has the shape and dtype that weight_h and the cell ask for."""
    if cell not in GATES:
        raise ValueError(f"cell={cell!r} is not one of {', '.join(GATES)}")
    weight_h, weight_x = arrays["weight_h"], arrays["weight_x"]
    _check_dtype("weight_h", weight_h)
    if weight_h.ndim != 4 or weight_x.ndim != 3:
        raise ValueError(
            f"weight_h must be (R, K, d_s, d_s) and weight_x (G, d, d_in), got "
            f"{weight_h.shape} and {weight_x.shape}"
        )
    (G, R), (_, K, d_s, _), d_in = GATES[cell], weight_h.shape, weight_x.shape[2]
    shapes = {"weight_x": (G, K * d_s, d_in), "weight_h": (R, K, d_s, d_s)}
    shapes["bias"] = (G, K * d_s)
    if cell == "lru_highway" and d_in != K * d_s:
        raise ValueError(
            f"cell={cell!r} needs d_in = d, got d_in={d_in} and d={K * d_s}"
        )
    for name, array in arrays.items():
        expected = shapes.get(name, (K * d_s,))
        if array.shape != expected or array.dtype != weight_h.dtype:
            raise ValueError(
                f"{name} must be {expected} of {weight_h.dtype} for cell={cell!r} with "
                f"K={K}, d_s={d_s}, got {array.shape} of {array.dtype}"
            )


def _check_dtype(name, array):
    if array.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} must be float32 or float64, got {array.dtype}")
