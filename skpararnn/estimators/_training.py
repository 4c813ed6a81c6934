"""Training: the skorch net that an estimator holds, and its epochs.

This is the only module that imports skorch.
"""

import copy
import dis
import functools
import inspect
import logging
import math
import numbers
import signal
import warnings
from contextlib import contextmanager, nullcontext, suppress

import numpy as np
import skorch
import torch
from sklearn.exceptions import ConvergenceWarning
from skorch.callbacks import Callback, EpochTimer, LRScheduler, PassthroughScoring
from skorch.helper import predefined_split
from torch.optim import lr_scheduler

from ..nets._modules import Dropout
from . import _device
from ._capture import StepCapture
from ._data import BatchIterator
from ._module import flat_weights, restore_weights

logger = logging.getLogger("skpararnn")


# ----------------------------------------------------------------------------- the net


class NonFiniteLoss(Exception):
    """The loss of a batch is NaN or infinite."""


class StopTraining(Exception):
    """A skorch callback ended the training by raising KeyboardInterrupt."""


class SequenceNet(skorch.NeuralNet):
    """The skorch net inside an estimator.

    It differs from skorch's: batches carry weights, a loss that is not finite stops the
    epoch, callbacks can stop the training but Ctrl-C is never swallowed, validation
    scores come with the loss, and `predict` gives class numbers or scaled values. On a
    card steps are captured, and losses are read when an epoch is over.

    Attributes
    ----------
    weights : list of (name, parameter)
        What is trained.
    on_card : bool
        Whether it is trained on a card.
    half : torch.dtype or None
        Type of the products in a training step, if it is not that of the weights.
    scaler : torch.amp.GradScaler or None
        Keeps the gradients of float16 from vanishing.
    capture : StepCapture or None
        Takes the steps on a card.
    capture_fallback_ : str or None
        Why no training step was captured as a CUDA graph; None if one was.
    """

    on_card = False
    half = None
    scaler = None
    capture = None
    clips_gradients = False
    capture_fallback_ = "the net was not trained on a card"

    @property
    def _default_callbacks(self):
        return [
            ("epoch_timer", EpochTimer()),
            ("train_loss", PassthroughScoring(name="train_loss", on_train=True)),
            ("valid_loss", PassthroughScoring(name="valid_loss")),
        ]

    def initialize_callbacks(self):
        """Make the callbacks, and note which of them listen to which moment."""
        super().initialize_callbacks()
        # most wait for the end of an epoch: a batch is too short to call them all
        self._listeners = {
            moment: [cb for _, cb in self.callbacks_ if _listens(cb, moment)]
            for moment in MOMENTS
        }
        return self

    def listeners(self, moment):
        """Callbacks that do something at a moment, such as "on_batch_end"."""
        return self._listeners[moment]

    def torch_compile(self, module, name):
        """Compile the module in place: its type and the names of its weights stay."""
        if self.compile and name == "module":
            with _named_failure(RuntimeError):
                module.compile(**self.get_params_for("compile"))
        return module

    def notify(self, method_name, **cb_kwargs):
        """Call the callbacks; one that raises KeyboardInterrupt ends the training."""
        try:
            getattr(self, method_name)(self, **cb_kwargs)
            for callback in self._listeners[method_name]:
                getattr(callback, method_name)(self, **cb_kwargs)
        except KeyboardInterrupt as error:
            if _comes_from_a_signal(error):
                raise
            raise StopTraining from error
        except KeyError as error:
            if "valid" not in str(error):
                raise
            raise ValueError(
                f"a callback looks for {error} in the history, but nothing was "
                "validated: pass X_val and y_val to fit, or set early_stopping=True."
            ) from error

    def run_single_epoch(self, iterator, training, prefix, step_fn, **fit_params):
        """Take a pass over the batches and record it."""
        if iterator is None:
            return
        self.weights = list(self.get_all_learnable_params())
        # to read a loss the host waits for the card, which then waits for the host
        reads_later = self.on_card and not self.listeners("on_batch_end")
        outputs, unread = [], []
        for number, batch in enumerate(iterator):
            self.notify("on_batch_begin", batch=batch, training=training)
            step = step_fn(batch, **fit_params)
            record = self.history[-1]["batches"][-1]
            if reads_later:
                unread.append((record, step["loss"].detach(), _share(batch[0])))
            else:
                loss, share = step["loss"].item(), float(_share(batch[0]))
                _note_loss(record, prefix, number, loss, share)
            if not training:
                outputs.append(step["y_pred"])
            self.notify("on_batch_end", batch=batch, training=training, **step)
        for i, (record, loss, share) in enumerate(_read(unread)):
            _note_loss(record, prefix, i, loss, share)
        self.history.record(f"{prefix}_batch_count", number + 1)
        if outputs:
            self._record_score(iterator.dataset, torch.cat(outputs))

    def train_step(self, batch, **fit_params):
        """Take one step of the optimizer."""
        if self.capture is not None:
            return self.capture.take_step(batch)
        return self.take_step(batch)

    def take_step(self, batch):
        """Take a step, calculation by calculation."""
        steps = []

        def closure():  # some optimizers call it more than once
            steps.append(self.compute_gradients(batch))
            return steps[-1]["loss"]

        if self.scaler is None:
            self.optimizer_.step(closure)
        else:
            closure()
            self.scaler.step(self.optimizer_)
            self.scaler.update()
        return steps[0]

    def compute_gradients(self, batch):
        """Leave the gradients of a batch with the weights."""
        inputs, target = batch
        for _, weight in self.weights:
            weight.grad = None
        self._set_training(True)
        output = self._infer_training(inputs)
        loss = self.get_loss(output, target, X=inputs, training=True)
        if self.scaler is None:
            loss.backward()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer_)
        self.notify(
            "on_grad_computed",
            named_parameters=self.weights,
            batch=batch,
            training=True,
        )
        return {"loss": loss, "y_pred": output}

    def _infer_training(self, inputs):
        """Apply the module as it is, or in 16 bits, or compiled."""
        if self.half is None and not self.compile:
            return self.infer(inputs)
        in_half = torch.autocast(
            torch.device(self.device).type,
            self.half,
            enabled=self.half is not None,
            cache_enabled=False,  # each weight is used once
        )
        # asking torch for its compiler's errors imports the compiler
        errors = torch._dynamo.exc.TorchDynamoException if self.compile else ()
        with in_half, _named_failure(errors):
            output = self.infer(inputs)
        # losses are sums, which lose more than products do
        return output if self.half is None else output.float()

    def infer(self, x, **fit_params):
        """Apply the module to a batch; weights concern the loss alone."""
        inputs = {k: v.to(self.device) for k, v in x.items() if k != "weight"}
        return self.module_(**inputs, **fit_params)

    def get_loss(self, y_pred, y_true, X=None, training=False):
        """Weighted mean of the losses of the rows."""
        weight = X.get("weight")
        if weight is not None:
            weight = weight.to(self.device)
        return self.criterion_(y_pred, y_true.to(self.device), weight)

    def _set_training(self, training=True):
        # it walks over all modules, which every batch need not do
        if self.module_.training != training:
            super()._set_training(training)

    def _record_score(self, dataset, output):
        score = self.criterion_.score(
            output.cpu().numpy(), dataset.target, dataset.weight
        )
        self.history.record(f"valid_{self.criterion_.score_name}", score)

    def predict(self, X):
        """Class numbers or scaled values; what skorch's scoring callbacks see."""
        return self.criterion_.answer(super().predict(X))


@contextmanager
def _named_failure(errors):
    """Say that it was torch.compile that failed."""
    try:
        yield
    except errors as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"compile=True, but torch.compile failed: {reason} Set compile=False."
        ) from error


MOMENTS = [name for name in dir(Callback) if name.startswith("on_")]


def _listens(callback, moment):
    """Whether a callback does anything at a moment."""
    method = getattr(callback, moment)
    return getattr(method, "__func__", None) is not getattr(Callback, moment)


class GradientClipping(Callback):
    """Scale the gradient down to a norm that it must not exceed.

    It is what skorch's GradientNormClipping does with fewer calls: the gradients of a
    net have one type and one device.

    Parameters
    ----------
    max_norm : float
    """

    def __init__(self, max_norm):
        self.max_norm = max_norm

    def on_grad_computed(self, net, named_parameters, **kwargs):
        """Scale the gradients in place."""
        gradients = [w.grad for _, w in named_parameters if w.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients))
        norm = torch.linalg.vector_norm(norms)
        if net.on_card:  # the host does not wait for the norm
            torch._foreach_mul_(gradients, (self.max_norm / norm).clamp(max=1.0))
        elif (norm := norm.item()) > self.max_norm:
            torch._foreach_mul_(gradients, self.max_norm / norm)


class Schedule(LRScheduler):
    """skorch's scheduler, which has nothing to do at the end of a batch."""

    on_batch_end = Callback.on_batch_end


def _share(inputs):
    """Return what a batch counts for in the mean loss of an epoch."""
    return inputs["weight"].sum() if "weight" in inputs else len(inputs["x"])


def _read(unread):
    """Records, losses and shares of batches, with numbers in the place of tensors."""
    if not unread:
        return ()
    records, *columns = zip(*unread, strict=True)
    return zip(records, *map(_to_numbers, columns), strict=True)


def _to_numbers(values):
    is_tensor = isinstance(values[0], torch.Tensor)
    return torch.stack(values).tolist() if is_tensor else values


def _note_loss(record, prefix, number, loss, share):
    if not math.isfinite(loss):
        raise NonFiniteLoss(f"the {prefix} loss of batch {number} is {loss}")
    record |= {f"{prefix}_loss": loss, f"{prefix}_batch_size": share}


def _comes_from_a_signal(error):
    """Tell Ctrl-C from a KeyboardInterrupt that a callback raised on purpose.

    skorch's EarlyStopping ends the training by raising KeyboardInterrupt. A ``raise``
    statement shows as the instruction at which the innermost frame stopped; a signal
    stops a frame anywhere else, or runs a handler that was set in Python.
    """
    handler = signal.getsignal(signal.SIGINT)
    while isinstance(handler, functools.partial):
        handler = handler.func
    stack = list(_walk(error.__traceback__))
    if getattr(handler, "__code__", None) in [tb.tb_frame.f_code for tb in stack]:
        return True
    innermost = stack[-1]
    instruction = innermost.tb_frame.f_code.co_code[innermost.tb_lasti]
    return dis.opname[instruction] != "RAISE_VARARGS"


def _walk(tb):
    while tb is not None:
        yield tb
        tb = tb.tb_next


OPTIMIZERS = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "sgd": torch.optim.SGD,
}

# those whose step torch can take in one call, on every device and for every type
FUSED = (torch.optim.Adam, torch.optim.AdamW)
# options by which a user asks for another kind of step
CONFLICTS = {f"optimizer__{kind}" for kind in ("fused", "foreach", "differentiable")}

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
    amp,
    compile,
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
    device : str
        As `_device.resolve` returns it.
    amp, compile : bool
        For a net that is to be trained.
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
    if not issubclass(optimizer, torch.optim.Optimizer):
        raise ValueError(
            "optimizer must be a name or a subclass of torch.optim.Optimizer, got "
            f"{optimizer.__name__}."
        )
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
        "device": str(_device.as_torch(device)),
        "compile": compile,
        "verbose": 0,
    }
    if weight_decay:  # not every optimiser has it
        arguments["optimizer__weight_decay"] = weight_decay
    _check_options(options, arguments)
    if optimizer in FUSED and not CONFLICTS.intersection(options):
        arguments["optimizer__fused"] = True
    net = SequenceNet(**arguments, **options)
    net.on_card = device != "cpu"
    net.clips_gradients = grad_clip is not None
    if amp:
        _set_precision(net, device)
    net.initialize()
    if net.on_card:
        net.capture = StepCapture(net)
    return net


def _set_precision(net, device):
    """Let the products of a training step be 16 bits wide."""
    net.half = _device.half_type(device)
    if net.half is torch.float16:
        # small gradients would be zero: float16 has fewer exponents than bfloat16
        if issubclass(net.optimizer, torch.optim.LBFGS):
            raise ValueError(
                "amp=True computes in float16 on this card and takes one step a batch; "
                "LBFGS tries several. Choose another optimizer or amp=False."
            )
        net.scaler = torch.amp.GradScaler(torch.device(net.device).type)


# the estimator's own parameters under other names
TAKEN = ("module__", "criterion__", "optimizer__lr", "optimizer__weight_decay")


def _check_options(options, arguments):
    known = inspect.signature(skorch.NeuralNet).parameters
    for name in options:
        if not isinstance(name, str):
            raise ValueError(f"net_params has the key {name!r}, which is no name.")
        if name in arguments or name.startswith(TAKEN):
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
        callbacks.append(("grad_clip", GradientClipping(grad_clip)))
    if lr_schedule is not None:
        if callable(lr_schedule):
            factor = _checked_factor(lr_schedule)
            schedule = {"policy": lr_scheduler.LambdaLR, "lr_lambda": factor}
        else:
            schedule = LR_SCHEDULES[lr_schedule](max_epochs)
        monitor = "valid_loss" if validates else "train_loss"
        callbacks.append(("lr_schedule", Schedule(monitor=monitor, **schedule)))
    return callbacks


def _checked_factor(lr_schedule):
    def factor(epoch):
        value = lr_schedule(epoch)
        if not isinstance(value, numbers.Real) or not np.isfinite(value):
            raise ValueError(
                f"lr_schedule must return a finite number, got {value!r} for epoch "
                f"{epoch}."
            )
        return value

    return factor


def _copy_callbacks(callbacks):
    for callback in callbacks or []:
        one = callback[-1] if isinstance(callback, tuple) else callback
        kind = one if isinstance(one, type) else type(one)
        if not issubclass(kind, Callback):
            raise ValueError(
                f"callbacks must hold skorch callbacks or (name, callback) pairs, got "
                f"{callback!r}."
            )
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

    Attributes
    ----------
    last_weights, best_weights : tensor or None
        All weights of the net in a row, at the end of the last and of the best epoch.
    """

    def __init__(self, n_iter_no_change, tol):
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.last_weights = None
        self.best_loss = np.inf
        self.best_epoch = None
        self.best_weights = None
        self._to_beat = np.inf
        self._n_stale = 0

    def wants_stop(self, loss, epoch, weights):
        """Take note of an epoch; true if there were too many without progress."""
        self.last_weights = weights
        if loss < self.best_loss:
            self.best_loss, self.best_epoch = loss, epoch
            if self.n_iter_no_change is not None:
                self.best_weights = weights
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
    with suppress(StopTraining):
        net.notify("on_train_begin", X=dataset, y=None)
        stopping.last_weights = flat_weights(net.module_)
        with _progress_bar(max_epochs, progress) as show:
            for _ in range(max_epochs):
                hooks.begin_epoch()
                stop = _run_epoch(net, dataset, stopping, show)
                if hooks.end_epoch() or stop:
                    break
    with suppress(StopTraining):
        net.notify("on_train_end", X=dataset, y=None)
    if stopping.best_weights is not None:
        restore_weights(net.module_, stopping.best_weights)
    stopping.last_weights = stopping.best_weights = None  # they may be on a card


def _run_epoch(net, dataset, stopping, show):
    """Train for one epoch; true if it is to be the last one."""
    try:
        stop = _take_pass(net, dataset)
        weights = _finite_weights(net.module_)
    except NonFiniteLoss as error:
        restore_weights(net.module_, stopping.last_weights)
        _give_up(net, error)
        return True
    if "train_loss" not in net.history[-1]:  # stopped in its midst
        net.history.pop()
        return True
    loss = _record_epoch(net, show)
    return stopping.wants_stop(loss, len(net.history), weights) or stop


def _take_pass(net, dataset):
    """Train for one epoch; true if a callback asks to stop."""
    try:
        net.fit_loop(dataset, epochs=1)
    except StopTraining:
        return True
    return False


def _finite_weights(module):
    weights = flat_weights(module)
    if not torch.isfinite(weights).all():
        name = next(n for n, w in module.named_parameters() if not w.isfinite().all())
        raise NonFiniteLoss(f"{name} is not finite after the last batch")
    return weights


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
        stacklevel=6,
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
        {"epoch": start + i}
        | {k: _plain(v) for k, v in epoch.items() if _worth_keeping(k)}
        for i, epoch in enumerate(net.history)
    ]


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def _worth_keeping(key):
    return key not in ("epoch", "batches") and not key.endswith(("_count", "_best"))


def release(net, keep_optimizer):
    """Let go of what only the training needed, and move the rest to the CPU."""
    net.train_split = None
    net.iterator_train__generator = None
    if net.capture is not None:
        net.capture_fallback_ = net.capture.fallback
    net.capture = net.scaler = None
    net.optimizer_.zero_grad(set_to_none=True)
    if not keep_optimizer:
        net.optimizer_.state.clear()
    elif net.on_card:
        _move_to_cpu(net.optimizer_.state)
    for module in net.module_.modules():
        if isinstance(module, Dropout):
            module.reseed(module.seed)  # its generator may be on a card
    net.module_._compiled_call_impl = None  # answers come in other shapes
    net.module_.to("cpu").eval()
    net.device = "cpu"
    net.on_card = False


def _move_to_cpu(state):
    for values in state.values():
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                values[name] = value.cpu()


def copy_optimizer_state(source, target):
    """Go on with the moments of another net's optimiser, if it is of the same kind."""
    if type(source.optimizer_) is type(target.optimizer_):
        state = target.optimizer_.state_dict()
        state["state"] = source.optimizer_.state_dict()["state"]
        target.optimizer_.load_state_dict(state)
