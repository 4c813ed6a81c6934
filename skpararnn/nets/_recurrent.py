"""A stack of recurrent layers with a read-out and a linear head."""

import numbers
from collections.abc import Callable
from typing import NamedTuple

import torch

from ..cells import CELLS, BlockRecurrentCell
from ..cells._init import check_generator
from ..ops._checks import BOOLEANS, check_choice, check_dtype, check_positive_int
from ..ops._loop import blank_padding
from ..ops._lru import CANDIDATES
from ._aggregation import make_aggregation
from ._modules import Dropout, linear


class Readout(NamedTuple):
    """What the head reads of the last layer."""

    outputs: str  # what the layer has to return
    n_parts: int  # vectors of the layer's width side by side
    join: Callable  # (h, last) -> (N, width) or (N, T, width)


READOUTS = {
    "last": Readout("last", 1, lambda h, last: last),
    "mean": Readout("mean", 1, lambda h, last: h),
    "last+mean": Readout("mean", 2, lambda h, last: torch.cat([last, h], dim=-1)),
    "all": Readout("all", 1, lambda h, last: h),
}


class RecurrentNet(torch.nn.Module):
    """Recurrent layers, read-out, aggregation and a linear head.

    Parameters
    ----------
    d_in, d_out : int
        Features of the input and of the output.
    cell : {"rnn", "lstm", "gru", "lru"}, default="rnn"
        Of every layer, like all that is not described here: see
        :class:`~skpararnn.cells.BlockRecurrentCell`.
    d_s : int or sequence of K ints, default=2
    K : int, default=32
    n_layers : int, default=1
        A layer reads the outputs of the layer below through a dense projection.
    candidate : {"highway", "tanh"}, default="highway"
        Of the layers of an lru from the second on: "highway" takes the layer's input as
        the candidate. The first layer always has "tanh".
    aggregation : {None, "linear", "fc", "ffn"}, default=None
        Applied once, between read-out and head; see Notes.
    d_agg : int, optional
        Width of the aggregation's output; that of the read-out if not given.
    d_ff : int, optional
        Inner width of "ffn"; four times that of the read-out if not given.
    bidirectional : bool, default=False
        Every layer runs in both directions; its output is [forward, backward].
    dropout : float, default=0.0
        In [0, 1), on the outputs of all layers but the last, in training. With one
        layer there is nothing to drop: it is accepted and changes nothing.
    init : str or callable, default="uniform"
    forget_bias : float, optional
    t_max : int, optional
    readout : {"last", "mean", "last+mean", "all"}, default="last"
        What the head reads. "last": the state at the last real step (of a backward run
        at step 0); "mean": the mean over real steps; "last+mean": both; "all": every
        step.
    backend : {"auto", "cpu", "triton", "native", "reference"}, default="auto"
    dtype : torch.dtype, optional
    device : torch.device or str, optional
    generator : torch.Generator, optional
        Source of every random number, those of dropout included; a new one with a
        random seed if not given.
    **options
        Further options of the cells: `activation` of rnn, `reset_after` of gru.

    Attributes
    ----------
    layers : list of lists of BlockRecurrentCell
        One cell per layer, or forward and backward.
    dropout : Dropout
        Its ``reseed(seed)`` starts the masks anew.
    aggregation, head : torch.nn.Module
    hidden_size : int
        Width d of one direction of a layer.

    Raises
    ------
    ValueError
        For unknown names, sizes that are no positive integers, dropout outside [0, 1),
        and what the cells refuse. Highway layers need one direction and blocks of equal
        size; the message names ``candidate="tanh"``.
    TypeError
        For an option that no cell has, and for a `dtype` or `generator` of another
        type.

    Notes
    -----
    With K = 1 the layers are those of ``torch.nn.RNN``, ``LSTM`` and ``GRU``.

    The read-out comes first and the aggregation is applied to what it returns, once a
    sequence. The paper aggregates every step. For "last" and "all" these are the same
    function, and so they are for "linear" with "mean"; for "fc" and "ffn" with "mean"
    they differ, because the mean of a nonlinear function is not the function of the
    mean. "last+mean" hands both vectors to one aggregation.

    Examples
    --------
    >>> import torch
    >>> from skpararnn.nets import RecurrentNet
    >>> net = RecurrentNet(3, 1, cell="gru", d_s=2, K=8, n_layers=2)
    >>> net(torch.zeros(5, 7, 3), lengths=torch.tensor([7, 3, 1, 7, 2])).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        d_in,
        d_out,
        *,
        cell="rnn",
        d_s=2,
        K=32,
        n_layers=1,
        candidate="highway",
        aggregation=None,
        d_agg=None,
        d_ff=None,
        bidirectional=False,
        dropout=0.0,
        init="uniform",
        forget_bias=None,
        t_max=None,
        readout="last",
        backend="auto",
        dtype=None,
        device=None,
        generator=None,
        **options,
    ):
        super().__init__()
        check_positive_int("d_out", d_out)
        check_positive_int("n_layers", n_layers)
        check_choice("readout", readout, READOUTS)
        check_choice("bidirectional", bidirectional, BOOLEANS)
        _check_candidate(cell, candidate, n_layers, bidirectional)
        dtype, generator = check_dtype(dtype), check_generator(generator)
        self.readout = readout
        self.layers = _make_layers(
            d_in,
            n_layers,
            candidate,
            bidirectional,
            cell=cell,
            d_s=d_s,
            K=K,
            init=init,
            forget_bias=forget_bias,
            t_max=t_max,
            backend=backend,
            dtype=dtype,
            device=device,
            generator=generator,
            **options,
        )
        width = READOUTS[readout].n_parts * _width(self.layers[-1])
        self.aggregation, width = make_aggregation(
            aggregation, width, d_agg, d_ff, generator
        )
        self.head = linear(width, d_out, generator=generator)
        self.dropout = Dropout(_check_dropout(dropout), _draw_seed(generator))
        self.to(device=device, dtype=dtype)

    def forward(self, x, lengths=None):
        """Run the net.

        Parameters
        ----------
        x : tensor of shape (N, T, d_in)
        lengths : integer tensor of shape (N,), optional
            Number of real steps of each row; padding follows them.

        Returns
        -------
        y : tensor of shape (N, d_out)
            For ``readout="all"`` ``(N, T, d_out)``, 0 at padded steps.
        """
        outputs, _, join = READOUTS[self.readout]
        y = self.head(self.aggregation(join(*self._states(x, lengths, outputs))))
        if outputs == "all" and lengths is not None:
            y = blank_padding(y, torch.as_tensor(lengths, device=y.device))
        return y

    def hidden_states(self, x, lengths=None):
        """Return the states of the last layer.

        Parameters
        ----------
        x : tensor of shape (N, T, d_in)
        lengths : integer tensor of shape (N,), optional

        Returns
        -------
        h : tensor of shape (N, T, d)
            0 at padded steps. ``(N, T, 2 * d)``, [forward, backward], if bidirectional.
        """
        h, _ = self._states(x, lengths, "all")
        return h

    def recurrent_blocks(self):
        """Return the recurrent blocks of every layer.

        Returns
        -------
        blocks : list of tensors of shape (R, K, d_s, d_s)
            From the first layer to the last, in each forward before backward. For
            blocks of unequal sizes each entry is a list of K tensors
            ``(R, d_k, d_k)``.
        """
        return [cell.recurrent_blocks() for layer in self.layers for cell in layer]

    def n_parameters(self):
        """Return the number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def hidden_size(self):
        """Width of one direction of a layer."""
        return self.layers[0][0].d

    def _states(self, x, lengths, outputs):
        """Outputs and last states of the last layer."""
        *below, top = self.layers
        for layer in below:
            x, _ = _run_layer(layer, x, lengths, "all")
            x = self.dropout(x)
        return _run_layer(top, x, lengths, outputs)


def _make_layers(d_in, n_layers, candidate, bidirectional, **common):
    layers = torch.nn.ModuleList()
    for _ in range(n_layers):
        first = not layers
        layers.append(
            _make_layer(
                d_in if first else _width(layers[-1]),
                bidirectional,
                candidate="tanh" if first else candidate,
                **common,
            )
        )
    return layers


def _make_layer(d_in, bidirectional, **common):
    directions = (False, True) if bidirectional else (False,)
    return torch.nn.ModuleList(
        BlockRecurrentCell(d_in, reverse=reverse, **common) for reverse in directions
    )


def _width(layer):
    return sum(cell.d for cell in layer)


def _run_layer(layer, x, lengths, outputs):
    hs, states = zip(
        *(cell(x, lengths, outputs=outputs) for cell in layer), strict=True
    )
    h = None if outputs == "last" else _side_by_side(hs)
    return h, _side_by_side([state[0] for state in states])


def _side_by_side(directions):
    return directions[0] if len(directions) == 1 else torch.cat(directions, dim=-1)


def _check_candidate(cell, candidate, n_layers, bidirectional):
    check_choice("candidate", candidate, CANDIDATES)
    highway = CELLS[check_choice("cell", cell, CELLS)].highway
    if highway and candidate == "highway" and n_layers > 1 and bidirectional:
        raise ValueError(
            "candidate='highway' needs one direction: a bidirectional layer is twice "
            "as wide as the candidate of the next. Use candidate='tanh'"
        )


def _check_dropout(dropout):
    if not isinstance(dropout, numbers.Real) or not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout must be a number in [0, 1); got {dropout!r}")
    return float(dropout)


def _draw_seed(generator):
    high = 2**63 - 1
    return int(torch.randint(high, (), generator=generator, device=generator.device))
