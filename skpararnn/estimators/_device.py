"""CUDA as the estimators see it; no other file of theirs calls ``torch.cuda``.

Nothing here is called before a fit or a prediction that may run on a card: a process
that has asked for one can no longer be forked.
"""

import threading
import warnings
from contextlib import contextmanager, nullcontext

import torch

# ------------------------------------------------------------------- which one is meant


def resolve(device):
    """Name the device to train on: "cpu", "cuda" or "cuda:<number>".

    Raises
    ------
    ValueError
        If the device is unknown, or a card that is not there.
    RuntimeError
        If this process was forked from one that had used CUDA.
    """
    kind, number = _parse(device)
    if kind == "cpu":
        return "cpu"
    _refuse_after_fork(device)
    if kind == "auto":
        return "cuda" if is_available() else "cpu"
    if reason := _absence(number):
        raise ValueError(
            f"device={device!r} was asked for, but {reason}; use device='auto' or "
            "device='cpu'."
        )
    return str(device)


def at_hand(device, asked_for):
    """Return the device a model was fitted on, or the CPU if this machine has none.

    Parameters
    ----------
    device : str
        What `resolve` returned in the fit.
    asked_for : str
        The parameter as it is now. After a fit "cpu" can still be chosen.

    Raises
    ------
    RuntimeError
        If this process was forked from one that had used CUDA.

    Warns
    -----
    UserWarning
        If a card was asked for by name.
    """
    if "cpu" in (device, asked_for):
        return "cpu"
    _refuse_after_fork(device)
    reason = _absence(_parse(device)[1])
    if reason is None:
        return device
    if asked_for != "auto":
        warnings.warn(
            f"the model was fitted with device={asked_for!r}, but {reason}: it "
            "predicts on the CPU.",
            stacklevel=4,
        )
    return "cpu"


def _parse(device):
    """The kind of a device and its number, or None."""
    if device == "auto":
        return "auto", None
    try:
        parsed = torch.device(device)
    except (RuntimeError, TypeError):
        parsed = None
    if parsed is None or parsed.type not in ("cpu", "cuda"):
        raise ValueError(
            f"device must be 'auto', 'cpu', 'cuda' or 'cuda:<number>', got {device!r}."
        )
    return parsed.type, parsed.index


def _absence(number):
    """Why a card is not there, or None."""
    if not is_available():
        return "torch finds no CUDA device here"
    if number is not None and number >= (n := count()):
        return f"the last CUDA device that torch finds here is cuda:{n - 1}"
    return None


def _refuse_after_fork(device):
    # Without a card the fork did no harm. is_available() cannot tell any more.
    if is_forked() and count() > 0:
        raise RuntimeError(
            f"device={device!r} cannot be used in this process: it was forked from one "
            "that had used CUDA, which does not survive a fork. Start workers with "
            "joblib's loky backend or multiprocessing's 'spawn', use threads, or set "
            "device='cpu'."
        )


# ----------------------------------------------------------------------- what it offers


def is_available():
    """Whether torch can compute on a card."""
    return torch.cuda.is_available()


def count():
    """Return how many cards there are."""
    return torch.cuda.device_count()


def is_forked():
    """Whether this process was forked from one that had used CUDA."""
    # not public; torch's own CUDA calls ask it before they refuse
    return getattr(torch.cuda, "_is_in_bad_fork", bool)()


def as_torch(device):
    """Return the torch.device of a name."""
    return torch.device(device)


def free_bytes(device):
    """Return the memory of a card that nobody uses."""
    return torch.cuda.mem_get_info(as_torch(device))[0]


def has_bfloat16(device):
    """Whether a card computes in bfloat16 itself, as those since Ampere do."""
    with torch.cuda.device(as_torch(device)):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def half_type(device):
    """Return the 16-bit type of `amp`: float16 where there is no bfloat16."""
    if device == "cpu" or has_bfloat16(device):
        return torch.bfloat16
    return torch.float16


def pin(tensor):
    """Copy a tensor to memory from which a card fetches without the host's help."""
    return tensor.pin_memory()


# --------------------------------------------------------------------- computing on it


def current(device):
    """Make a card the one that kernels are launched on, for a while."""
    return nullcontext() if device == "cpu" else torch.cuda.device(as_torch(device))


@contextmanager
def training_on(device):
    """Train on a stream of its own, counted among the fits that use a card.

    Steps are captured on the stream they run on, and that must not be the default one.
    """
    if device == "cpu":
        yield
        return
    with _counted():
        try:
            with own_stream(device):
                yield
        finally:
            give_back_memory()


@contextmanager
def own_stream(device):
    """Compute on a new stream, in the order in which the host asks."""
    stream = torch.cuda.Stream(as_torch(device))
    before = torch.cuda.current_stream(as_torch(device))
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        before.wait_stream(stream)


def give_back_memory():
    """Return what torch keeps for later to the card, for other processes to use."""
    with _lock:  # not while another fit is being captured
        torch.cuda.empty_cache()


_lock = threading.Lock()
_n_fits = 0


@contextmanager
def _counted():
    _add_fits(1)
    try:
        yield
    finally:
        _add_fits(-1)


def _add_fits(n):
    global _n_fits
    with _lock:
        _n_fits += n


@contextmanager
def alone():
    """Hold back fits that want to start; the value says whether there is no other."""
    with _lock:
        yield _n_fits <= 1


class Graph:
    """A piece of work on a card that is recorded once and repeated by one launch.

    Parameters
    ----------
    work : callable
        Returns tensors. It runs once, without computing anything.
    generators : list of torch.Generator
        Those on the card that it draws from.

    Raises
    ------
    RuntimeError
        If the work cannot be recorded.
    """

    def __init__(self, work, generators):
        everybodys = torch.cuda.default_generators[torch.cuda.current_device()]
        generators = [*generators, everybodys]  # torch registers this one by itself
        states = [generator.get_state() for generator in generators]
        try:
            self._record(work, generators[:-1])
        except BaseException:
            _revive(generators, states)
            raise

    def _record(self, work, generators):
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        recording = torch.cuda.graph(
            self._graph,
            stream=torch.cuda.current_stream(),
            # other threads may go on using the card
            capture_error_mode="thread_local",
        )
        with recording:
            self._outputs = work()

    def replay(self):
        """Do the work; its outputs stand where they always do."""
        self._graph.replay()
        return self._outputs


def _revive(generators, states):
    """Give generators new insides: a failed capture leaves them unusable."""
    for generator, state in zip(generators, states, strict=True):
        fresh = torch.Generator(generator.device)
        fresh.set_state(state)
        generator.graphsafe_set_state(fresh)
