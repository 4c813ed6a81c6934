"""Training steps as CUDA graphs.

The card takes less time for a step of a small net than the host takes to launch its
hundred kernels one by one. A graph launches them all in one call.
"""

from collections import Counter
from contextlib import contextmanager

import torch

from ..nets._modules import Dropout
from . import _device

# Steps of a shape that run as always before it is captured: kernels are compiled and
# workspaces are made in the first ones.
WARM_UP = 3

# Shapes that get a graph; each holds the memory of a step.
MAX_GRAPHS = 16

# Callbacks from here look on, or change what `_settings` sees. Others might change the
# net between two steps, and a graph would not notice.
TRUSTED = ("skorch", "skpararnn")


class StepCapture:
    """Takes training steps, by a graph where the shape of the batch has one.

    Parameters
    ----------
    net : SequenceNet
        Initialised, on a card.

    Attributes
    ----------
    fallback : str or None
        Why no step was captured, None if one was.
    """

    def __init__(self, net):
        self.fallback = f"no shape of a batch came more than {WARM_UP} times"
        self._net = net
        self._refusal = refusal(net)
        if self._refusal:
            self.fallback = self._refusal
        self._graphs = {}
        self._n_seen = Counter()
        self._settings = None

    def take_step(self, batch):
        """Take one step of the optimizer, as `SequenceNet.train_step` is to do."""
        graph = None if self._refusal else self._graph_of(batch)
        return self._net.take_step(batch) if graph is None else graph.take_step(batch)

    def _graph_of(self, batch):
        self._forget_what_has_changed()
        shape = _shape(batch)
        if shape not in self._graphs and self._is_due(shape):
            self._capture(shape, batch)
        return self._graphs.get(shape)

    def _forget_what_has_changed(self):
        settings = _settings(self._net)
        if settings != self._settings:
            self._graphs.clear()
            self._n_seen.clear()
            if self._settings is not None:
                self.fallback = "options of the optimizer change between steps"
            self._settings = settings

    def _is_due(self, shape):
        self._n_seen[shape] += 1
        return self._n_seen[shape] > WARM_UP and len(self._graphs) < MAX_GRAPHS

    def _capture(self, shape, batch):
        with _device.alone() as is_alone:
            if not is_alone:
                self.fallback = "another fit uses a card in this process"
                return
            try:
                self._graphs[shape] = _StepGraph(self._net, batch)
            except Exception as error:  # of torch, CUDA or a driver: eager steps go on
                self._refusal = f"the step cannot be captured: {_first(error)}"
                self._graphs.clear()
            self.fallback = self._refusal


def refusal(net):
    """Say why the steps of a net cannot be captured, or return None."""
    optimizer = net.optimizer_
    if net.compile:
        return "compile=True: torch.compile makes the kernels, and its own graphs"
    if net.scaler is not None:
        return "amp=True in float16 scales each loss by what came of the last ones"
    if not _can_be_captured(optimizer):
        return (
            f"a step of {type(optimizer).__name__} with these options cannot be "
            "captured, one of fused Adam or AdamW can"
        )
    for name, callback in net.callbacks_:
        if type(callback).__module__.split(".")[0] not in TRUSTED:
            return f"the callback {name} may change the net between steps"
    if len(net.listeners("on_grad_computed")) > (net.clips_gradients):
        return "a callback wants to see the gradients of each step"
    return None


def _can_be_captured(optimizer):
    return type(optimizer) in (torch.optim.Adam, torch.optim.AdamW) and all(
        group["fused"] for group in optimizer.param_groups
    )


def _shape(batch):
    inputs, target = batch
    return *((name, x.shape) for name, x in inputs.items()), target.shape


def _settings(net):
    """What a graph has taken for constant, and a callback may change."""
    groups = [
        {name: value for name, value in group.items() if name not in ("params", "lr")}
        for group in net.optimizer_.param_groups
    ]
    return groups, [weight.requires_grad for _, weight in net.weights]


def _first(error):
    """The error that came first: leaving a broken capture is another one."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).partition("\n")[0]


class _StepGraph:
    """The graph of the step of one shape of a batch, and the tensors it reads."""

    def __init__(self, net, batch):
        inputs, target = batch
        self._inputs = {name: x.clone() for name, x in inputs.items()}
        self._target = target.clone()
        self._groups = net.optimizer_.param_groups
        self._known = [group["lr"] for group in self._groups]
        self._rates = [
            torch.tensor(lr, dtype=torch.float32, device=target.device)
            for lr in self._known
        ]

        def work():
            step = net.compute_gradients((self._inputs, self._target))
            net.optimizer_.step()
            return {name: tensor.detach() for name, tensor in step.items()}

        with _rates_as_tensors(self._groups, self._rates):
            self._graph = _device.Graph(work, _generators(net.module_))
        # where the graph writes them: they must not be given to others
        self._gradients = [weight.grad for _, weight in net.weights]

    def take_step(self, batch):
        """Read a batch into the tensors of the graph, and run it."""
        inputs, target = batch
        for name, x in inputs.items():
            self._inputs[name].copy_(x)
        self._target.copy_(target)
        self._follow_schedule()
        step = self._graph.replay()
        return {name: tensor.clone() for name, tensor in step.items()}

    def _follow_schedule(self):
        rates = [group["lr"] for group in self._groups]
        if rates != self._known:
            for tensor, rate in zip(self._rates, rates, strict=True):
                tensor.fill_(rate)
            self._known = rates


@contextmanager
def _rates_as_tensors(groups, tensors):
    """Let an optimizer read its learning rates from the card.

    A number would be part of the graph. Outside, schedules and callbacks go on with
    numbers.
    """
    before = [{name: group[name] for name in ("lr", "capturable")} for group in groups]
    for group, lr in zip(groups, tensors, strict=True):
        group.update(lr=lr, capturable=True)
    try:
        yield
    finally:
        for group, values in zip(groups, before, strict=True):
            group.update(values)


def _generators(module):
    """The generators that masks are drawn from."""
    found = (m.generator for m in module.modules() if isinstance(m, Dropout))
    return [generator for generator in found if generator is not None]
