"""The loop over time as one operator, which the fast kernels implement.

``torch.ops.skpararnn.scan`` runs one layer of any cell, ``scan_backward`` returns its
gradients. They are registered with torch, so that ``torch.compile`` sees two operators
and leaves their insides alone. A device's implementation is a module: ``forward`` and
``backward`` with the operators' arguments, which return None where the operators
return an empty tensor; ``empty_outputs``, the tensors that forward returns, of which
those for backward are the device's own; and ``KEEPS_H``, whether backward wants h back.
"""

from functools import partial

import torch

from . import _scan_cpu, _scan_cuda
from ._scan_checks import check_backward, check_forward
from ._scan_parts import How, empty_gradients

DEVICES = {"cpu": _scan_cpu, "cuda": _scan_cuda}

_TENSORS = (
    "Tensor x, Tensor weight_x, Tensor weight_h, Tensor bias, "
    "Tensor? bias_q, Tensor? h0, Tensor? c0, Tensor? lengths"
)
_OPTIONS = "str cell, str option, bool reverse, str outputs"
_SCHEMAS = [
    f"scan({_TENSORS}, {_OPTIONS}, bool save)"
    " -> (Tensor h, Tensor h_last, Tensor c_last, Tensor checkpoints, Tensor p)",
    "scan_backward(Tensor? dh, Tensor? dh_last, Tensor? dc_last, "
    f"{_TENSORS}, Tensor? h, Tensor checkpoints, Tensor p, {_OPTIONS}, bool[] wanted)"
    " -> (Tensor dx, Tensor dweight_x, Tensor dweight_h, Tensor dbias, "
    "Tensor dbias_q, Tensor dh0, Tensor dc0)",
]
N_GRADIENTS = 7
NO_GRADIENTS = (None,) * 6  # of lengths, the options and save
HALF = (torch.float16, torch.bfloat16)


def scan(x, weight_x, weight_h, bias, loop, *, cell, option="", bias_q=None):
    """Run a layer by the kernel of its device.

    Parameters
    ----------
    x, weight_x, weight_h, bias, bias_q : tensors
        As in the ops, checked.
    loop : Loop
    cell : {"rnn", "lstm", "gru", "lru"}
    option : str
        rnn: the activation; gru: "after" or "before", the place of the reset gate; lru:
        the candidate.

    Returns
    -------
    h : tensor of shape (N, T, d), (N, d) or None
        As in the ops.
    states : tuple of tensors of shape (N, d)
    """
    h0, c0 = loop.states if cell == "lstm" else (*loop.states, None)
    tensors = x, weight_x, weight_h, bias, bias_q, h0, c0, loop.lengths
    save = torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in tensors
    )
    run = _quickest_way(tensors, save)
    h, h_last, c_last, *_ = run(
        *tensors, cell, option, loop.reverse, loop.outputs, save
    )
    states = (h_last, c_last) if cell == "lstm" else (h_last,)
    return (None if loop.outputs == "last" else h), states


PLAIN = (torch.Tensor, torch.nn.Parameter)


def _quickest_way(tensors, save):
    """The operator, or what it would call.

    On small nets torch's dispatcher takes longer than the kernel. It can be left out
    where nothing but autograd wants to see the operator.
    """
    if _is_watched(tensors):
        return torch.ops.skpararnn.scan.default
    return _Scan.apply if save else _implementation(tensors[0]).forward


def _implementation(x):
    """Return the module for the device of x; fake tensors have a device too."""
    return DEVICES.get(x.device.type, _scan_cpu)


def _is_watched(tensors):
    return (
        not all(tensor is None or type(tensor) in PLAIN for tensor in tensors)
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or _n_modes() > 0
    )


# not public: without it a mode sees the parts of the operator, make_fx records nothing
_n_modes = getattr(torch._C, "_len_torch_dispatch_stack", int)


# -- gradients -------------------------------------------------------------------------


class _Scan(torch.autograd.Function):
    """The operator under autograd, without the dispatcher.

    There is no ``setup_context``: with one, torch inspects signatures in every call.
    """

    @staticmethod
    def forward(ctx, *arguments):
        filled = _implementation(arguments[0]).forward(*arguments)
        _keep(ctx, arguments, filled)
        return filled

    @staticmethod
    def backward(ctx, *grads):
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return _backward(ctx, *grads)
        run = _implementation(ctx.saved_tensors[0]).backward
        return _gradients(run, ctx, grads)


def _keep(ctx, inputs, output):
    """Keep what backward reads."""
    *tensors, cell, option, reverse, outputs, save = inputs
    h, _, _, *kept = output  # checkpoints, p
    ctx.mark_non_differentiable(*(tensor for tensor in kept if tensor is not None))
    ctx.set_materialize_grads(False)
    keeps_h = outputs == "all" and _implementation(tensors[0]).KEEPS_H
    ctx.save_for_backward(*tensors, h if keeps_h else None, *kept)
    ctx.how = cell, option, reverse, outputs
    ctx.has_checkpoints = save


def _backward(ctx, *grads):
    return _gradients(torch.ops.skpararnn.scan_backward.default, ctx, grads)


def _gradients(run, ctx, grads):
    if not ctx.has_checkpoints:
        raise RuntimeError("scan ran with save=False and cannot be differentiated")
    wanted = list(ctx.needs_input_grad[:N_GRADIENTS])
    grads = run(*grads[:3], *ctx.saved_tensors, *ctx.how, wanted)
    pairs = zip(grads, wanted, strict=True)
    return *(grad if want else None for grad, want in pairs), *NO_GRADIENTS


def _no_second_derivatives(ctx, *grads):
    raise NotImplementedError(
        "the fast kernels have no second derivatives; use backend='reference'"
    )


# -- registration ----------------------------------------------------------------------


def _run_forward(*arguments):
    check_forward(*arguments[:-1])
    x = arguments[0]
    return _complete(x, _implementation(x).forward(*arguments))


def _run_backward(*arguments):
    grads, tensors = arguments[:3], arguments[3:11]
    kept, how, wanted = arguments[11:14], arguments[14:18], arguments[18]
    check_forward(*tensors, *how)
    check_backward(grads, tensors, kept, _shapes_of_kept(tensors, how), how, wanted)
    x = tensors[0]
    return _complete(x, _implementation(x).backward(*arguments))


def _shapes_of_kept(tensors, how):
    x, weight_x = tensors[:2]
    device, how = _implementation(x), How(*how)
    x = torch.empty_like(x, device="meta")
    h, _, _, *kept = _complete(x, device.empty_outputs(x, weight_x, how, True))
    keeps_h = how.outputs == "all" and device.KEEPS_H
    return [h.shape if keeps_h else (0,), *(tensor.shape for tensor in kept)]


def _shapes_forward(x, weight_x, *arguments):
    *_, save = arguments
    how = How(*arguments[-5:-1])
    return _complete(x, _implementation(x).empty_outputs(x, weight_x, how, save))


def _shapes_backward(dh, dh_last, dc_last, *arguments):
    *tensors, wanted = arguments
    return _complete(tensors[0], empty_gradients(tensors, wanted))


def _run_in_float32(run, *arguments):
    """Run an operator under autocast: a long recurrence needs more digits than half.

    ``torch.library.register_autocast`` is younger than the oldest torch we run on.
    """
    with torch.autocast("cuda", enabled=False):
        return run(*map(_widened, arguments))


def _widened(argument):
    if isinstance(argument, torch.Tensor) and argument.dtype in HALF:
        return argument.float()
    return argument


def _complete(x, tensors):
    return tuple(x.new_empty(0) if tensor is None else tensor for tensor in tensors)


_library = torch.library.Library("skpararnn", "DEF")
for schema in _SCHEMAS:
    _library.define(schema, tags=torch.Tag.pt2_compliant_tag)
for key in ("CPU", "CUDA"):
    _library.impl("scan", _run_forward, key)
    _library.impl("scan_backward", _run_backward, key)
for operator in ("scan", "scan_backward"):
    run = getattr(torch.ops.skpararnn, operator).default
    _library.impl(operator, partial(_run_in_float32, run), "AutocastCUDA")
torch.library.register_fake("skpararnn::scan", _shapes_forward, lib=_library)
torch.library.register_fake("skpararnn::scan_backward", _shapes_backward, lib=_library)
torch.library.register_autograd(
    "skpararnn::scan", _backward, setup_context=_keep, lib=_library
)
torch.library.register_autograd(
    "skpararnn::scan_backward", _no_second_derivatives, lib=_library
)
