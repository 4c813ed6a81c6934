"""Training: the skorch net that an estimator holds, its batches and its epochs.

This is the only module that imports skorch.
"""

import copy
import dis
import inspect
import logging
import warnings
from contextlib import nullcontext

import numpy as np
import skorch
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from skorch.callbacks import (
    EpochTimer,
    GradientNormClipping,
    LRScheduler,
    PassthroughScoring,
)
from skorch.helper import predefined_split
from skorch.utils import to_tensor
from torch.optim import lr_scheduler

from ..nets import RecurrentNet

logger = logging.getLogger("skpararnn")


# ------------------------------------------------------------------ data and batches


class SequenceDataset(torch.utils.data.Dataset):
    """Sequences with their encoded targets and weights.

    Parameters
    ----------
    sequences : Sequences
    target : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Class numbers (int64), or scaled values of the type of the sequences.
    weight : ndarray of shape (n_samples,) or None
    """

    def __init__(self, sequences, target, weight=None):
        self.sequences = sequences
        self.target = target
        self.weight = weight

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, i):
        return self.batch(np.array([i]))

    def take(self, rows):
        """The part of these rows."""
        weight = None if self.weight is None else self.weight[rows]
        return SequenceDataset(self.sequences.take(rows), self.target[rows], weight)

    def batch(self, rows):
        """Inputs and targets of these rows as skorch wants them.

        Returns
        -------
        inputs : dict of tensors
            ``x`` (N, T, d_in), zeros after the last real step, ``lengths`` (N,), and
            if there are weights ``weight`` (N,).
        target : tensor of shape (N,) or (N, n_outputs)
        """
        x, lengths = self.sequences.padded(rows)
        inputs = {"x": torch.from_numpy(x), "lengths": torch.from_numpy(lengths)}
        if self.weight is not None:
            inputs["weight"] = torch.from_numpy(self.weight[rows])
        return inputs, torch.from_numpy(self.target[rows])


class BatchIterator:
    """Cut a dataset into batches by slicing; nothing is collated row by row.

    Parameters
    ----------
    dataset : SequenceDataset
    batch_size : int
    generator : torch.Generator, default=None
        Shuffles the rows anew in each pass; None keeps their order.
    """

    def __init__(self, dataset, batch_size, generator=None):
        self.dataset = dataset
        self.batch_size = batch_size
        self.generator = generator

    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self):
        n = len(self.dataset)
        if self.generator is None:
            order = np.arange(n)
        else:
            order = torch.randperm(n, generator=self.generator).numpy()
        for start in range(0, n, self.batch_size):
            yield self.dataset.batch(order[start : start + self.batch_size])


# ------------------------------------------------------------------------------ losses


class CrossEntropy(torch.nn.Module):
    """Loss and score of a classifier, scores (N, n_classes) and class numbers (N,)."""

    score_name = "accuracy"

    def forward(self, output, target):
        """Loss of each row, (N,)."""
        return torch.nn.functional.cross_entropy(output, target, reduction="none")

    def answer(self, output):
        """Class numbers, (N,)."""
        return output.argmax(axis=1)

    def score(self, output, target, weight):
        """Share of right answers."""
        return accuracy_score(target, self.answer(output), sample_weight=weight)


class SquaredError(torch.nn.Module):
    """Loss and score of a regressor, both sides (N, n_outputs)."""

    score_name = "r2"

    def forward(self, output, target):
        """Loss of each row, the mean over its outputs, (N,)."""
        return (output - target).square().mean(dim=1)

    def answer(self, output):
        """Scaled values as they are."""
        return output

    def score(self, output, target, weight):
        """R2, which does not depend on the scale of the target."""
        if len(target) < 2:
            return np.nan
        return r2_score(target, output, sample_weight=weight)


# ----------------------------------------------------------------------------- the net


class NonFiniteLoss(Exception):
    """The loss of a batch is NaN or infinite."""


class StopTraining(Exception):
    """A skorch callback ended the training by raising KeyboardInterrupt."""


class SequenceNet(skorch.NeuralNet):
    """The skorch net inside an estimator.

    It differs from skorch's in four points: batches carry weights, a loss that is not
    finite stops the epoch, callbacks can stop the training but Ctrl-C is never
    swallowed, and validation scores come with the loss.
    """

    @property
    def _default_callbacks(self):
        return [
            ("epoch_timer", EpochTimer()),
            ("train_loss", PassthroughScoring(name="train_loss", on_train=True)),
            ("valid_loss", PassthroughScoring(name="valid_loss")),
        ]

    def infer(self, x, **fit_params):
        """Apply the module to a batch; weights concern the loss alone."""
        inputs = {name: value for name, value in x.items() if name != "weight"}
        return super().infer(inputs, **fit_params)

    def get_loss(self, y_pred, y_true, X=None, training=False):
        """Weighted mean of the losses of the rows."""
        losses = self.criterion_(y_pred, to_tensor(y_true, device=self.device))
        if "weight" not in X:
            return losses.mean()
        weight = to_tensor(X["weight"], device=self.device)
        return (weight * losses).sum() / weight.sum()

    def run_single_epoch(self, iterator, training, prefix, step_fn, **fit_params):
        """Take a pass over the batches and record it."""
        if iterator is None:
            return
        outputs = []
        for number, batch in enumerate(iterator):
            self.notify("on_batch_begin", batch=batch, training=training)
            step = step_fn(batch, **fit_params)
            loss = step["loss"].item()
            if not np.isfinite(loss):
                raise NonFiniteLoss(f"the {prefix} loss of batch {number} is {loss}")
            self.history.record_batch(f"{prefix}_loss", loss)
            self.history.record_batch(f"{prefix}_batch_size", _share(batch[0]))
            if not training:
                outputs.append(step["y_pred"])
            self.notify("on_batch_end", batch=batch, training=training, **step)
        self.history.record(f"{prefix}_batch_count", number + 1)
        if outputs:
            self._record_score(iterator.dataset, torch.cat(outputs))

    def _record_score(self, dataset, output):
        score = self.criterion_.score(
            output.cpu().numpy(), dataset.target, dataset.weight
        )
        self.history.record(f"valid_{self.criterion_.score_name}", score)

    def predict(self, X):
        """Class numbers or scaled values; what skorch's scoring callbacks see."""
        return self.criterion_.answer(super().predict(X))

    def notify(self, method_name, **cb_kwargs):
        """Call the callbacks; one that raises KeyboardInterrupt ends the training."""
        try:
            super().notify(method_name, **cb_kwargs)
        except KeyboardInterrupt as error:
            if _comes_from_a_signal(error):
                raise
            raise StopTraining from error


def _share(inputs):
    """Return what a batch counts for in the mean loss of an epoch."""
    return float(inputs["weight"].sum()) if "weight" in inputs else len(inputs["x"])


def _comes_from_a_signal(error):
    """Tell Ctrl-C from a KeyboardInterrupt that Python code raised on purpose.

    skorch's EarlyStopping ends the training by raising KeyboardInterrupt. A ``raise``
    statement shows as the instruction at which the innermost frame stopped; a signal
    stops a frame anywhere else.
    """
    innermost = error.__traceback__
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    instruction = innermost.tb_frame.f_code.co_code[innermost.tb_lasti]
    return dis.opname[instruction] != "RAISE_VARARGS"


OPTIMIZERS = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "sgd": torch.optim.SGD,
}

LR_SCHEDULES = {
    "plateau": lambda max_epochs: {
        "policy": lr_scheduler.ReduceLROnPlateau,
        "factor": 0.5,
        "patience": 5,
    },
    "cosine": lambda max_epochs: {
        "policy": lr_scheduler.CosineAnnealingLR,
        "T_max": max_epochs,
    },
    "step": lambda max_epochs: {
        "policy": lr_scheduler.StepLR,
        "step_size": max(1, max_epochs // 3),
        "gamma": 0.3,
    },
}


def make_module(architecture, seed):
    """Make the torch module of a net, with initial values drawn from a seed."""
    arguments = architecture | {"dtype": getattr(torch, architecture["dtype"])}
    generator = torch.Generator().manual_seed(int(seed))
    return RecurrentNet(**arguments, generator=generator)


def build_net(
    module,
    criterion,
    *,
    optimizer,
    lr,
    weight_decay,
    lr_schedule,
    grad_clip,
    max_epochs,
    batch_size,
    shuffle_seed,
    validation,
    device,
    callbacks,
    options,
):
    """Make an initialised skorch net around a module.

    Parameters
    ----------
    module : torch.nn.Module
    criterion : CrossEntropy or SquaredError
    validation : SequenceDataset or None
    shuffle_seed : int or None
        None keeps the order of the rows.
    callbacks : list or None
        The user's skorch callbacks; copied.
    options : dict
        Further arguments of ``skorch.NeuralNet``.

    Returns
    -------
    SequenceNet

    Raises
    ------
    ValueError
        If `options` names what a parameter of the estimator sets.
    """
    if isinstance(optimizer, str):
        optimizer = OPTIMIZERS[optimizer]
    shuffle = None
    if shuffle_seed is not None:
        shuffle = torch.Generator().manual_seed(int(shuffle_seed))
    arguments = {
        "module": module,
        "criterion": criterion,
        "optimizer": optimizer,
        "lr": lr,
        "max_epochs": max_epochs,
        "batch_size": batch_size,
        "iterator_train": BatchIterator,
        "iterator_train__generator": shuffle,
        "iterator_valid": BatchIterator,
        "train_split": None if validation is None else predefined_split(validation),
        "callbacks": _house_callbacks(
            grad_clip, lr_schedule, max_epochs, validation is not None
        )
        + _copy_callbacks(callbacks),
        "device": device,
        "verbose": 0,
    }
    if weight_decay:  # not every optimiser has it
        arguments["optimizer__weight_decay"] = weight_decay
    _check_options(options, arguments)
    return SequenceNet(**arguments, **options).initialize()


def _check_options(options, arguments):
    known = inspect.signature(skorch.NeuralNet).parameters
    for name in options:
        if name in arguments:
            raise ValueError(
                f"net_params must not set {name!r}: the estimator sets it from its own "
                "parameters."
            )
        if name.split("__")[0] not in known:
            raise ValueError(
                f"net_params has the unknown key {name!r}; it takes the options named "
                "in the documentation, arguments of skorch.NeuralNet, and such with a "
                "prefix, for example optimizer__betas."
            )


def _house_callbacks(grad_clip, lr_schedule, max_epochs, validates):
    callbacks = []
    if grad_clip is not None:
        callbacks.append(("grad_clip", GradientNormClipping(grad_clip)))
    if lr_schedule is not None:
        if callable(lr_schedule):
            schedule = {"policy": lr_scheduler.LambdaLR, "lr_lambda": lr_schedule}
        else:
            schedule = LR_SCHEDULES[lr_schedule](max_epochs)
        monitor = "valid_loss" if validates else "train_loss"
        callbacks.append(("lr_schedule", LRScheduler(monitor=monitor, **schedule)))
    return callbacks


def _copy_callbacks(callbacks):
    # a callback keeps what it saw: the user's own object stays as it was
    return copy.deepcopy(list(callbacks or []))


# ------------------------------------------------------------------------- the epochs


class Stopping:
    """Early stopping on the validation loss, and the weights to go back to.

    Parameters
    ----------
    n_iter_no_change : int or None
        Epochs without an improvement of `tol` before the training ends; None never
        ends it and keeps the last weights.
    tol : float
    """

    def __init__(self, n_iter_no_change, tol):
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.best_loss = np.inf
        self.best_epoch = None
        self.best_weights = None
        self._to_beat = np.inf
        self._n_stale = 0

    def wants_stop(self, loss, epoch, module):
        """Take note of an epoch; true if there were too many without progress."""
        if loss < self.best_loss:
            self.best_loss, self.best_epoch = loss, epoch
            if self.n_iter_no_change is not None:
                self.best_weights = copy_weights(module)
        if loss < self._to_beat - self.tol:
            self._to_beat, self._n_stale = loss, 0
        else:
            self._n_stale += 1
        return self.n_iter_no_change is not None and (
            self._n_stale >= self.n_iter_no_change
        )


def train(net, dataset, *, max_epochs, stopping, hooks, progress):
    """Train for some epochs.

    Parameters
    ----------
    net : SequenceNet
    dataset : SequenceDataset
    max_epochs : int
    stopping : Stopping
    hooks : EpochHooks
    progress : bool
        Whether to show a progress bar on the standard error stream.

    Raises
    ------
    ValueError
        If the loss is not finite in the first epoch.

    Warns
    -----
    ConvergenceWarning
        If it is not finite later; the last finite weights are restored.
    """
    net.notify("on_train_begin", X=dataset, y=None)
    try:
        with _progress_bar(max_epochs, progress) as show:
            for _ in range(max_epochs):
                hooks.begin_epoch()
                stop = _run_epoch(net, dataset)
                if "train_loss" not in net.history[-1]:  # stopped in its midst
                    net.history.pop()
                    break
                loss = _record_epoch(net, show)
                stop |= stopping.wants_stop(loss, len(net.history), net.module_)
                if hooks.end_epoch() or stop:
                    break
    except NonFiniteLoss as error:
        _give_up(net, error)
    net.notify("on_train_end", X=dataset, y=None)
    if stopping.best_weights is not None:
        load_weights(net.module_, stopping.best_weights)


def _run_epoch(net, dataset):
    """Train for one epoch; true if a callback ended the training."""
    last_finite = copy_weights(net.module_)
    try:
        net.fit_loop(dataset, epochs=1)
        for name, weight in net.module_.state_dict().items():
            if not torch.isfinite(weight).all():
                raise NonFiniteLoss(f"{name} is not finite after the last batch")
    except NonFiniteLoss:
        load_weights(net.module_, last_finite)
        raise
    except StopTraining:
        return True
    return False


def _record_epoch(net, show):
    epoch = net.history[-1]
    loss = epoch.get("valid_loss", epoch["train_loss"])
    logger.debug("epoch %d: loss %g", len(net.history), loss)
    show(epoch)
    return loss


def _give_up(net, error):
    epoch = len(net.history)
    advice = (
        f"Training diverged in epoch {epoch}: {error}. Scale the features (for example "
        "with StandardScaler), or choose a smaller lr or grad_clip."
    )
    if epoch == 1:
        raise ValueError(advice) from None
    net.history.pop()
    warnings.warn(
        f"{advice} The weights of the end of epoch {epoch - 1} are kept.",
        ConvergenceWarning,
        stacklevel=4,
    )


def _progress_bar(max_epochs, wanted):
    """A context whose value is told of each epoch's record."""
    if not wanted:
        return nullcontext(lambda epoch: None)
    from tqdm import tqdm

    return _Progress(tqdm(total=max_epochs, unit="epoch"))


class _Progress:
    def __init__(self, bar):
        self.bar = bar

    def __enter__(self):
        return self.show

    def __exit__(self, *error):
        self.bar.close()

    def show(self, epoch):
        losses = {k: epoch[k] for k in ("train_loss", "valid_loss") if k in epoch}
        self.bar.set_postfix({k: f"{v:.4g}" for k, v in losses.items()}, refresh=False)
        self.bar.update()


def list_epochs(net, start):
    """Make plain dicts of the net's history, numbered from `start`."""
    return [
        {"epoch": start + i} | {k: v for k, v in epoch.items() if _worth_keeping(k)}
        for i, epoch in enumerate(net.history)
    ]


def _worth_keeping(key):
    return key not in ("epoch", "batches") and not key.endswith(("_count", "_best"))


def release(net, keep_optimizer):
    """Let go of what only the training needed, and move the module to the CPU."""
    net.train_split = None
    net.iterator_train__generator = None
    net.optimizer_.zero_grad(set_to_none=True)
    if not keep_optimizer:
        net.optimizer_.state.clear()
    net.module_.to("cpu").eval()
    net.device = "cpu"


def copy_optimizer_state(source, target):
    """Go on with the moments of another net's optimiser, if it is of the same kind."""
    if type(source.optimizer_) is type(target.optimizer_):
        state = target.optimizer_.state_dict()
        state["state"] = source.optimizer_.state_dict()["state"]
        target.optimizer_.load_state_dict(state)


# --------------------------------------------------------------- devices and weights


def resolve_device(device):
    """Name the device to compute on.

    Raises
    ------
    ValueError
        If the device is unknown, or asks for CUDA where there is none.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        kind = None
    if kind not in ("cpu", "cuda"):
        raise ValueError(
            f"device must be 'auto', 'cpu', 'cuda' or 'cuda:<number>', got {device!r}."
        )
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r} was asked for, but torch finds no CUDA device here; "
            "use device='auto' or device='cpu'."
        )
    return str(device)


def copy_weights(module):
    """Every parameter of a module, detached from it."""
    return {name: w.detach().clone() for name, w in module.state_dict().items()}


def load_weights(module, weights):
    """Set the parameters of a module."""
    module.load_state_dict(
        {name: torch.as_tensor(w) for name, w in weights.items()}, strict=True
    )


def device_at_hand(device, asked_for):
    """Return the device a model was fitted on, or the CPU if this machine has none.

    Warns
    -----
    UserWarning
        If CUDA was asked for by name.
    """
    if device == "cpu" or torch.cuda.is_available():
        return device
    if asked_for != "auto":
        warnings.warn(
            f"the model was fitted with device={asked_for!r}, but torch finds no CUDA "
            "device here: it predicts on the CPU.",
            stacklevel=4,
        )
    return "cpu"


def module_on(module, device):
    """The module, or a copy of it on another device."""
    return module if device == "cpu" else copy.deepcopy(module).to(device)


def to_numpy(blocks):
    """Tensors in nested lists as arrays in nested lists."""
    if isinstance(blocks, torch.Tensor):
        return blocks.detach().cpu().numpy().copy()
    return [to_numpy(b) for b in blocks]


def weights_to_numpy(module):
    """Every parameter of a module as an array of its own."""
    return {name: w.cpu().numpy() for name, w in copy_weights(module).items()}


# -------------------------------------------------------------------------- inference


def infer(function, sequences, *, device, per_step=False):
    """Apply a module to sequences, in batches of fixed shape.

    The shape of the batch in which a row is computed depends on nothing but its own
    length, so that its answer does not depend on the other rows of the call.

    Parameters
    ----------
    function : callable
        Takes x (N, T, d_in) and lengths (N,); returns (N, ...) or (N, T, ...).
    sequences : Sequences
    device : str
    per_step : bool, default=False
        Whether the answers have a time axis.

    Returns
    -------
    ndarray of shape (n_samples, ...) or (sum of lengths, ...)
    """
    lengths = sequences.lengths
    ceilings = _round_up(lengths)
    answers = [None] * len(lengths)
    with torch.inference_mode():
        for T in np.unique(ceilings):
            n_rows = _rows_at_once(T)
            members = np.flatnonzero(ceilings == T)
            for start in range(0, len(members), n_rows):
                rows = members[start : start + n_rows]
                output = function(*_fixed_batch(sequences, rows, n_rows, T, device))
                output = output[: len(rows)].cpu().numpy()
                for row, answer in zip(rows, output, strict=True):
                    answers[row] = answer[: lengths[row]] if per_step else answer
    return np.concatenate(answers) if per_step else np.stack(answers)


def _rows_at_once(T):
    # of 32, 64, ... rows the matrix products treat each alike, wherever it stands
    return 64 if T <= 2**12 else 32 if T <= 2**14 else 1


def _fixed_batch(sequences, rows, n_rows, T, device):
    """Rows in a batch of `n_rows`; those missing repeat the last one."""
    filled = np.concatenate([rows, np.repeat(rows[-1], n_rows - len(rows))])
    x, lengths = sequences.padded(filled, int(T))
    return torch.from_numpy(x).to(device), torch.from_numpy(lengths).to(device)


def _round_up(lengths):
    """The next of 1..8, 10, 12, 14, 16, 20, ...: four values an octave."""
    step = 2 ** np.maximum(np.ceil(np.log2(lengths)).astype(int) - 3, 0)
    return -(-lengths // step) * step
