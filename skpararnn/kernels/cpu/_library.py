"""Find, check and call the library that was compiled from ``scan.cpp``.

Its interface is plain C, so it depends on no version of Python or torch, and ctypes
releases the interpreter's lock while a call runs. ``setup.py`` compiles one library per
instruction set; the best one that this CPU can run, and that can be loaded, serves from
the first call on that needs it. The environment variable ``SKPARARNN_ISA`` asks for
another one by name.
"""

import contextlib
import ctypes
import functools
import os
import platform
import warnings
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent

# best first: the level of the CPU that each needs, as skpararnn_cpu_level() counts it;
# level 1 runs on every CPU of its kind
INSTRUCTION_SETS = {
    "x86-64-v4": 4,
    "x86-64-v3": 3,
    "x86-64": 1,
    "neon": 1,
    "generic": 1,
}

# the codes of scan.cpp, under the names they have there
CELL_CODES = {
    "rnn_tanh": 0,
    "rnn_relu": 1,
    "rnn_sigmoid": 2,
    "rnn_identity": 3,
    "lstm": 4,
    "gru_after": 5,
    "gru_before": 6,
    "lru_tanh": 7,
    "lru_highway": 8,
}
OUTPUT_CODES = {"last": 0, "all": 1, "mean": 2}
DONE, NO_MEMORY, UNKNOWN_CELL, BAD_SIZES = range(4)

_NUMBERS = "itemsize cell K d_s d_in N T chunk reverse outputs threads"
_ARRAYS = (
    "x p weight_x weight_h bias bias_q h0 c0 lengths h h_last c_last checkpoints "
    "dh dh_last dc_last dx dp dweight_x dweight_h dbias dbias_q dh0 dc0"
)


class Scan(ctypes.Structure):
    """What one call works on: the struct of ``scan.cpp``, field by field.

    All fields are keyword arguments. A number that is not given is 0, an array None.
    An array is the address of contiguous memory that outlives the call, such as
    ``tensor.data_ptr()`` or ``array.ctypes.data``; nothing about it is checked. G
    gates, R of them recurrent, d = K * d_s; S = 2 for LSTM, else 1.

    Parameters
    ----------
    itemsize : int
        4 for float32, 8 for float64; all arrays but `lengths` have that type.
    cell, outputs : int
        A code of `CELL_CODES` and of `OUTPUT_CODES`.
    K, d_s, d_in, N, T : int
        Blocks, units per block, features, rows and steps.
    chunk : int
        Steps between two checkpoints, at least 1.
    reverse : int
        1 runs from the last real step to the first.
    threads : int
        At most so many; small work gets fewer, and `backward` at most 16.
    x : address of (N, T, d_in)
    p : address of (N, T, G, d)
        Input part of the pre-activations, with bias, in place of `x`, `weight_x` and
        `bias`; the highway cell reads `x` too.
    weight_x, weight_h, bias, bias_q : address
        (G, d, d_in), (R, K, d_s, d_s), (G, d); (d,) or None.
    h0, c0 : address of (N, d) or None
        First states; None for zeros.
    lengths : address of (N,) int64 or None
        Real steps of each row; None if all have T.
    h : address
        Filled: (N, T, d) for "all", (N, d) for "mean".
    h_last, c_last : address of (N, d)
        Filled: the states after the last real step.
    checkpoints : address of (N, ceil(T / chunk), S, d) or None
        Filled by `forward`, read by `backward`; None if no backward follows.
    dh, dh_last, dc_last : address or None
        Gradients of what `forward` filled; None for zeros.
    dx, dp, dweight_x, dweight_h, dbias, dbias_q, dh0, dc0 : address or None
        Filled by `backward`, in the shapes of what they are gradients of.
    """

    __slots__ = ()  # or a misspelt field would be kept as an attribute, unnoticed
    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS.split()),
        *((name, ctypes.c_void_p) for name in _ARRAYS.split()),
    ]


_int64, _pointer = ctypes.c_int64, ctypes.c_void_p

# function: its arguments, then what it returns
_PROTOTYPES = {
    "sizeof_scan": ((), _int64),
    "vector_bytes": ((), _int64),
    "cpu_level": ((), _int64),
    "forward": ((_pointer,), _int64),
    "backward": ((_pointer,), _int64),
    "stepper_bytes": ((_pointer,), _int64),
    "stepper_init": ((_pointer, _pointer), _int64),
    "stepper_step": ((_pointer, _pointer, _pointer), None),
    "stepper_state": ((_pointer, _pointer, _pointer), None),
    "tanh": ((_int64, _pointer, _pointer, _int64), None),
}

# Functions that return within a microsecond keep the interpreter's lock: a thread that
# gives it up may have to wait milliseconds until it gets it back.
_KEEPS_LOCK = {"stepper_step"}


class Library(NamedTuple):
    """A loaded library: its name, the bytes of its vectors, its functions."""

    isa: str
    bytes_per_vector: int
    forward: object
    backward: object
    stepper_bytes: object
    stepper_init: object
    stepper_step: object
    stepper_state: object
    tanh: object


# -- calls -----------------------------------------------------------------------------


def forward(scan):
    """Run the loop over time.

    Parameters
    ----------
    scan : Scan
        Sizes, inputs, and the arrays to fill, which need not be initialised.

    Raises
    ------
    MemoryError
        The buffers of the call cannot be had: some 100 kB to 1 MB a thread, and in
        `backward` up to 32 MB for sums of gradients.
    RuntimeError
        There is no library, it does not know the cell, or a size is not positive; the
        message has the reason.
    """
    status = load().forward(ctypes.byref(scan))
    if status != DONE:
        raise failure(status, scan)


def backward(scan):
    """Fill the gradients, from the checkpoints that `forward` left.

    Parameters and errors are those of `forward`.
    """
    status = load().backward(ctypes.byref(scan))
    if status != DONE:
        raise failure(status, scan)


def failure(status, scan):
    """Return the exception for a status of the library that is not `DONE`."""
    if status == NO_MEMORY:
        return MemoryError(
            f"the CPU kernel could not get its buffers for K={scan.K}, d_s={scan.d_s}, "
            f"d_in={scan.d_in}, threads={scan.threads}"
        )
    if status == UNKNOWN_CELL:
        return RuntimeError(f"the CPU kernel has no cell with the code {scan.cell}")
    if status == BAD_SIZES:
        return RuntimeError(
            "the CPU kernel needs K, d_s and chunk of at least 1 and no negative size; "
            f"got K={scan.K}, d_s={scan.d_s}, chunk={scan.chunk}, d_in={scan.d_in}, "
            f"N={scan.N}, T={scan.T}"
        )
    return RuntimeError(f"the CPU kernel returned the unknown status {status}")


# -- which library ---------------------------------------------------------------------


def available():
    """Return None if a library can be used, else the reason why not.

    Raises
    ------
    ValueError
        ``SKPARARNN_ISA`` names what does not exist, was not compiled or does not run on
        this CPU.
    """
    _, reason = _find()
    return reason


def load():
    """Return the library for this CPU; it is loaded once per process.

    Raises
    ------
    RuntimeError
        There is none; the message is that of `available`.
    ValueError
        As for `available`.
    """
    library, reason = _find()
    if library is None:
        raise RuntimeError(reason)
    return library


def built():
    """Names of the instruction sets that a library was compiled for, best first."""
    return [isa for isa in INSTRUCTION_SETS if _path(isa).exists()]


def warn_once_if_missing():
    """Warn, once per process, that the slow path serves because there is no library."""
    global _warned
    if _warned:
        return
    _warned = True
    if reason := available():
        warnings.warn(
            f"skpararnn computes without its fast CPU kernels, many times slower: "
            f"{reason}",
            UserWarning,
            stacklevel=2,
        )


_warned = False


@functools.cache
def _find():
    """The library and None, or None and the reason; looked for once per process."""
    try:
        asked = _asked_for()
        return _first_that_opens([asked] if asked else _suitable()), None
    except _Unusable as error:
        return None, str(error)


def _first_that_opens(names):
    *better, last = names
    for isa in better:
        with contextlib.suppress(_Unusable):
            return _open(isa)
    return _open(last)


class _Unusable(Exception):
    """There is no library, or none that can be called; the message has the reason."""


def _suitable():
    """The libraries that this CPU can run, best first."""
    level = _cpu_level()
    return [isa for isa in built() if INSTRUCTION_SETS[isa] <= level]


def _asked_for():
    """The instruction set that the environment names, if it can be had, or None."""
    isa = os.environ.get("SKPARARNN_ISA")
    if not isa:
        return None
    if isa not in INSTRUCTION_SETS:
        raise ValueError(
            f"SKPARARNN_ISA={isa!r} names no instruction set; choose one of "
            f"{', '.join(INSTRUCTION_SETS)}, or unset it"
        )
    if isa not in built():
        raise ValueError(
            f"SKPARARNN_ISA={isa!r} was not compiled for this machine; what was: "
            f"{', '.join(built()) or 'nothing'}. Unset it to let the CPU decide"
        )
    if INSTRUCTION_SETS[isa] > _cpu_level():
        raise ValueError(
            f"SKPARARNN_ISA={isa!r} does not run on this CPU; the best that does is "
            f"{_suitable()[0]!r}. Unset it to let the CPU decide"
        )
    return isa


def _cpu_level():
    """Level of this CPU, asked of the one library that every CPU can run."""
    baseline = [isa for isa in built() if INSTRUCTION_SETS[isa] == 1]
    if not baseline:
        raise _Unusable(
            f"no CPU kernel was compiled for this machine ({platform.machine()}); "
            "install a C++ compiler (g++ or clang++) and reinstall skpararnn"
        )
    return _functions(baseline[0])["cpu_level"]()


def _open(isa):
    functions = _functions(isa)
    calls = {name: functions[name] for name in Library._fields[2:]}
    return Library(isa, functions["vector_bytes"](), **calls)


def _functions(isa):
    """The functions of one library by name; it has them all, for the same struct."""
    path = _path(isa)
    try:
        code = ctypes.CDLL(str(path))
        functions = {name: _function(code, name) for name in _PROTOTYPES}
    except OSError as error:
        raise _Unusable(f"{path.name} cannot be loaded: {error}") from error
    except AttributeError as error:  # a function is not there
        raise _stale(path) from error
    if functions["sizeof_scan"]() != ctypes.sizeof(Scan):
        raise _stale(path)
    return functions


def _stale(path):
    return _Unusable(
        f"{path.name} was compiled from another version of skpararnn; reinstall, or "
        "compile it again with `make kernels`"
    )


def _function(code, name):
    arguments, result = _PROTOTYPES[name]
    kind = ctypes.PYFUNCTYPE if name in _KEEPS_LOCK else ctypes.CFUNCTYPE
    return kind(result, *arguments)((f"skpararnn_{name}", code))


def _path(isa):
    return FOLDER / f"scan_{isa.replace('-', '_')}.so"
