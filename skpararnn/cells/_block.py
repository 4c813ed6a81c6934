"""One recurrent layer: owns the parameters of a cell and calls its op."""

import math
import numbers

import numpy as np
import torch
from torch.nn import Parameter, ParameterList

from ..ops._checks import BOOLEANS, check_choice, check_dtype, check_positive_int
from ._init import check_generator, check_init, uniform_within
from ._table import CELLS, check_options


class BlockRecurrentCell(torch.nn.Module):
    """A recurrent layer with block-diagonal recurrent matrices.

    Parameters
    ----------
    d_in : int
        Features of the input.
    cell : {"rnn", "lstm", "gru", "lru"}, default="rnn"
        A row of `CELLS`.
    d_s : int or sequence of K ints, default=2
        Size of the blocks. Blocks of unequal sizes cost one call of the op per size.
    K : int, default=32
        Number of blocks; K = 1 is the dense layer. The width d is the sum of the sizes.
    init : str or callable, default="uniform"
        First values of the recurrent blocks, a row of `INITS`: "uniform",
        "orthogonal", "identity", "rotation", "jordan", "chrono"; or a function
        ``init(shape, generator)`` that returns ``(R, K, d_s, d_s)``. Input weights and
        biases are uniform within 1/sqrt(d); "chrono" has its own biases.
    forget_bias : float, optional
        First value of the forget gate's bias in place of a random one; lstm only.
    t_max : int, optional
        Longest training sequence in steps; ``init="chrono"`` needs it.
    reverse : bool, default=False
        Run from the last real step to the first.
    backend : {"auto", "cpu", "triton", "native", "reference"}, default="auto"
        As in the ops.
    dtype : torch.dtype, optional
        torch.float32 or torch.float64; torch's default dtype if not given.
    device : torch.device or str, optional
    generator : torch.Generator, optional
        Source of the first values; a new one with a random seed if not given.
    **options
        Options of the op, as the cell's row lists them, default first: `activation` of
        rnn ("tanh", "relu", "sigmoid", "identity"), `candidate` of lru ("tanh",
        "highway"), `reset_after` of gru (True, False). A cell ignores an option that
        only others have, but not a value that none of them has.

    Attributes
    ----------
    weight_x : parameter of shape (G, d, d_in)
        Rows in the order of the cell's gates, without those the model does not have:
        lru with highway candidates holds the gate's row alone.
    weight_h : parameter of shape (R, K, d_s, d_s)
        For blocks of unequal sizes a list with one parameter ``(R, n, size, size)`` per
        distinct size, in ascending order.
    bias : parameter of shape (G, d)
        lru holds the gate's row alone.
    bias_q : parameter of shape (d,)
        Of gru with ``reset_after=True``.
    d_in, d, K : int
    sizes : tuple of K ints

    Raises
    ------
    ValueError
        For sizes that are no positive integers, a `d_s` whose length is not K, unknown
        names, highway candidates with d_in other than d or unequal sizes, a
        `forget_bias` or `init` that does not fit the cell, and for blocks of an `init`
        that have another shape or are not finite.
    TypeError
        For an option that no cell has, an `init` that returns no real numbers, and for
        a `dtype` or `generator` of another type.

    Examples
    --------
    >>> import torch
    >>> from skpararnn.cells import BlockRecurrentCell
    >>> cell = BlockRecurrentCell(3, cell="lstm", d_s=2, K=4)
    >>> cell.weight_x.shape, cell.weight_h.shape
    (torch.Size([4, 8, 3]), torch.Size([4, 4, 2, 2]))
    >>> h, (h_last, c_last) = cell(torch.zeros(5, 7, 3))
    >>> h.shape, c_last.shape
    (torch.Size([5, 7, 8]), torch.Size([5, 8]))
    """

    def __init__(
        self,
        d_in,
        *,
        cell="rnn",
        d_s=2,
        K=32,
        init="uniform",
        forget_bias=None,
        t_max=None,
        reverse=False,
        backend="auto",
        dtype=None,
        device=None,
        generator=None,
        **options,
    ):
        super().__init__()
        self.cell = check_choice("cell", cell, CELLS)
        self.spec = CELLS[cell]
        self.d_in = check_positive_int("d_in", d_in)
        self.sizes = block_sizes(d_s, K)
        self.K, self.d = len(self.sizes), sum(self.sizes)
        self.reverse = check_choice("reverse", reverse, BOOLEANS)
        self.backend = backend
        self.options = check_options(cell, options)
        self._check_highway()
        self._check_forget_bias(forget_bias, init)
        self._group_blocks()
        dtype, generator = check_dtype(dtype), check_generator(generator)
        self._make_parameters(check_init(init), t_max, forget_bias, generator)
        self.to(device=device, dtype=dtype)

    def forward(self, x, lengths=None, state=None, outputs="all"):
        """Run the layer.

        Parameters
        ----------
        x : tensor of shape (N, T, d_in)
        lengths : integer tensor of shape (N,), optional
            Number of real steps of each row; padding follows them.
        state : tuple of tensors of shape (N, d) or (d,), optional
            First states, one for each state of the cell; zeros by default.
        outputs : {"all", "last", "mean"}, default="all"

        Returns
        -------
        h : tensor of shape (N, T, d), (N, d) or None
            As in the ops.
        state : tuple of tensors of shape (N, d)
            States after the last real step; the next call can start from them.

        Notes
        -----
        Autocast does not reach in here: x is cast to the type of the weights. What 16
        bits round off at each step would add up.
        """
        if torch.is_autocast_enabled(x.device.type):
            with torch.autocast(x.device.type, enabled=False):
                return self.forward(x.to(self.weight_x.dtype), lengths, state, outputs)
        first = self._first_states(state)
        runs = [
            self._run(x, units, weight_h, lengths, first, outputs)
            for units, weight_h in self._groups()
        ]
        if len(runs) == 1:
            return runs[0]
        hs, states = zip(*runs, strict=True)
        h = None if outputs == "last" else self._in_block_order(hs)
        return h, tuple(map(self._in_block_order, zip(*states, strict=True)))

    def recurrent_blocks(self):
        """Return the recurrent blocks in block order.

        Returns
        -------
        blocks : tensor of shape (R, K, d_s, d_s)
            For unequal sizes a list of K tensors of shape ``(R, d_k, d_k)``.
        """
        if self._equal_sizes:
            return self.weight_h
        blocks = {}
        for members, weight_h in zip(self._members, self.weight_h, strict=True):
            blocks.update(zip(members, weight_h.unbind(1), strict=True))
        return [blocks[k] for k in range(self.K)]

    def extra_repr(self):
        """Return what print shows between the brackets."""
        d_s = self.sizes[0] if self._equal_sizes else list(self.sizes)
        own = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{self.d_in}, cell={self.cell!r}, d_s={d_s}, K={self.K}{own}"

    @property
    def _equal_sizes(self):
        return len(set(self.sizes)) == 1

    @property
    def _highway(self):
        """The gate that the input itself replaces, or ""."""
        chosen = self.options.get("candidate") == "highway"
        return self.spec.highway if chosen else ""

    @property
    def _projected(self):
        """The gates that read the input through weights."""
        return self.spec.gates.replace(self._highway, "")

    def _check_highway(self):
        if not self._highway:
            return
        if not self._equal_sizes:
            raise ValueError(
                "candidate='highway' needs blocks of equal size; got "
                f"d_s={list(self.sizes)}. Use candidate='tanh'"
            )
        if self.d_in != self.d:
            raise ValueError(
                "candidate='highway' makes the input the candidate and needs d_in = d; "
                f"got d_in={self.d_in}, d={self.d}. Use candidate='tanh'"
            )

    def _check_forget_bias(self, forget_bias, init):
        if forget_bias is None:
            return
        is_number = isinstance(forget_bias, numbers.Real)
        if not is_number or not math.isfinite(forget_bias):
            raise ValueError(
                f"forget_bias must be a finite number; got {forget_bias!r}"
            )
        if not self.spec.forget:
            cells = ", ".join(repr(name) for name in CELLS if CELLS[name].forget)
            raise ValueError(f"forget_bias is for {cells}; got cell={self.cell!r}")
        if init == "chrono":
            raise ValueError("init='chrono' sets the forget gate; drop forget_bias")

    def _group_blocks(self):
        """Group blocks of one size: which they are, and which units are theirs."""
        starts = np.cumsum([0, *self.sizes])
        self._members = [
            [k for k, d_k in enumerate(self.sizes) if d_k == size]
            for size in sorted(set(self.sizes))
        ]
        units = [
            np.concatenate([np.arange(starts[k], starts[k + 1]) for k in members])
            for members in self._members
        ]
        self._widths = [len(group) for group in units]
        order = torch.from_numpy(np.concatenate(units))
        # they follow from the sizes, so the state dict does not hold them
        self.register_buffer("_order", order, persistent=False)
        self.register_buffer("_restore", order.argsort(), persistent=False)

    def _make_parameters(self, init, t_max, forget_bias, generator):
        spec, d = self.spec, self.d
        self._extra_bias = [
            name for name, on in spec.extra_bias.items() if self.options[on]
        ]
        shape = len(self._projected), d, self.d_in
        self.weight_x = Parameter(uniform_within(1.0 / math.sqrt(d), shape, generator))

        blocks = []
        for members in self._members:
            size = self.sizes[members[0]]
            shape = len(spec.recurrent), len(members), size, size
            blocks.append(Parameter(init.blocks(shape, generator)))
        self.weight_h = blocks[0] if self._equal_sizes else ParameterList(blocks)

        rows = [*spec.biased, *self._extra_bias]
        biases = init.bias(rows, d, spec.chrono, t_max, generator)
        if forget_bias is not None:
            biases[rows.index(spec.forget)] = forget_bias
        self.bias = Parameter(biases[: len(spec.biased)].clone())
        for name in self._extra_bias:
            setattr(self, name, Parameter(biases[rows.index(name)].clone()))

    def _first_states(self, state):
        """First states by the names that the op gives them."""
        names = [f"{name}0" for name in self.spec.states]
        if state is None:
            return {}
        if not isinstance(state, tuple | list) or len(state) != len(names):
            raise ValueError(
                f"state must be a tuple of {len(names)} tensors "
                f"({', '.join(self.spec.states)}) for cell={self.cell!r}"
            )
        return dict(zip(names, state, strict=True))

    def _groups(self):
        """Units (None: all) and recurrent blocks of each call of the op."""
        if self._equal_sizes:
            return [(None, self.weight_h)]
        return zip(self._order.split(self._widths), self.weight_h, strict=True)

    def _run(self, x, units, weight_h, lengths, first, outputs):
        weight_x = self._every_gate(self.weight_x, self._projected)
        bias = self._every_gate(self.bias, self.spec.biased)
        extra = {name: getattr(self, name) for name in self._extra_bias}
        by_unit = {"bias": bias, **extra, **first}
        h, last = self.spec.op(
            x,
            _select(weight_x, units, dim=1),
            weight_h,
            **{name: _select(rows, units) for name, rows in by_unit.items()},
            **self.options,
            lengths=lengths,
            reverse=self.reverse,
            outputs=outputs,
            backend=self.backend,
        )
        return h, last if isinstance(last, tuple) else (last,)

    def _every_gate(self, rows, held):
        """Add zeros for the gates whose rows the model does not have."""
        gates = self.spec.gates
        if held == gates:
            return rows
        zeros = rows.new_zeros(1, *rows.shape[1:])
        own = dict(zip(held, rows.split(1), strict=True))
        return torch.cat([own.get(gate, zeros) for gate in gates])

    def _in_block_order(self, groups):
        return torch.cat(groups, dim=-1)[..., self._restore]


def _select(tensor, units, dim=-1):
    return tensor if units is None else tensor.index_select(dim, units)


def block_sizes(d_s, K):
    """Return the sizes of the K blocks as a tuple.

    Raises
    ------
    ValueError
        If `K` or a size is no positive integer, or `d_s` is a sequence of another
        length than K.
    """
    K = check_positive_int("K", K)
    if np.ndim(d_s) == 0:
        return (check_positive_int("d_s", d_s),) * K
    if len(d_s) != K:
        raise ValueError(f"d_s has {len(d_s)} sizes; K={K} blocks need one each")
    return tuple(check_positive_int(f"d_s[{k}]", d_k) for k, d_k in enumerate(d_s))
