"""The two sides of a layer case, and the check that ours gives the right answers."""

import torch

from skpararnn.cells import CELLS, BlockRecurrentCell

# torch has no Light Recurrent Unit; a GRU is what a user would take instead
TWINS = {
    "rnn": torch.nn.RNN,
    "lstm": torch.nn.LSTM,
    "gru": torch.nn.GRU,
    "lru": torch.nn.GRU,
}

# Of the largest entry, in float32. Sums over thousands of steps in another order differ
# by 1e-6; what is wrong differs by more than this.
TOLERANCE = 1e-4
ROWS_CHECKED = 4  # in float64, by the reference: seconds


class Ours(torch.nn.Module):
    """Layers of `BlockRecurrentCell` with their default initial values."""

    def __init__(self, sizes, backend="auto"):
        super().__init__()
        d = sizes.K * sizes.d_s
        self.outputs = sizes.outputs
        self.layers = torch.nn.ModuleList(
            BlockRecurrentCell(
                d_in,
                cell=sizes.cell,
                d_s=sizes.d_s,
                K=sizes.K,
                backend=backend,
                generator=torch.Generator().manual_seed(layer),
            )
            for layer, d_in in enumerate([sizes.d_in] + [d] * (sizes.n_layers - 1))
        )

    def forward(self, x, lengths=None):
        """Return what the loss reads, (N, d) or (N, T, d)."""
        for layer in self.layers[:-1]:
            x, _ = layer(x, lengths)
        h, (h_last, *_) = self.layers[-1](x, lengths, outputs=self.outputs)
        return h_last if self.outputs == "last" else h


READS = {
    # not h[:, -1], whose gradient would be filled up with zeros for the other steps
    "last": lambda h, last: last[-1],
    "mean": lambda h, last: h.mean(1),
    "all": lambda h, last: h,
}


class Torchs(torch.nn.Module):
    """The layers of torch of the same width."""

    def __init__(self, sizes):
        super().__init__()
        self.read = READS[sizes.outputs]
        width = sizes.K * sizes.d_s
        options = {"num_layers": sizes.n_layers, "batch_first": True}
        with torch.random.fork_rng(devices=[]):  # torch draws from its global generator
            torch.manual_seed(0)
            self.layers = TWINS[sizes.cell](sizes.d_in, width, **options)

    def forward(self, x):
        """Return what the loss reads, (N, d) or (N, T, d)."""
        h, last = self.layers(x)
        return self.read(h, last[0] if isinstance(last, tuple) else last)


def make_input(sizes):
    """Return x, (N, T, d_in)."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(sizes.N, sizes.T, sizes.d_in, generator=generator)


def training_step(module, *inputs):
    """Forward, and backward to the gradient of every parameter, as one function."""
    weights = list(module.parameters())
    with torch.no_grad():
        gradient = _wave(module(*inputs))
    return lambda: torch.autograd.grad(module(*inputs), weights, gradient)


def inference_step(module, *inputs):
    """Forward without gradients, as a function."""

    def step():
        with torch.inference_mode():
            return module(*inputs)

    return step


STEPS = {"train": training_step, "infer": inference_step}


def bytes_held(module, x):
    """Bytes that forward keeps for backward, beyond parameters and x."""
    own = {t.untyped_storage().data_ptr() for t in [x, *module.parameters()]}
    held = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = module(x)
    del result  # it kept what was noted alive, so that no address came twice
    return sum(size for address, size in held.items() if address not in own)


def short_lengths(sizes):
    """Lengths, (N,): every second row has a tenth of the steps."""
    lengths = torch.full((sizes.N,), sizes.T)
    lengths[::2] = sizes.T // 10
    return lengths


def states_per_layer(sizes):
    """Bytes of h at every step in float32."""
    return 4 * sizes.N * sizes.T * sizes.K * sizes.d_s


def check(sizes):
    """Raise if outputs or gradients are not those of the reference in float64."""
    sizes = sizes._replace(N=min(sizes.N, ROWS_CHECKED))
    ours, truth = Ours(sizes), Ours(sizes, backend="reference").double()
    truth.load_state_dict(ours.state_dict())
    x = make_input(sizes)
    for lengths in (None, short_lengths(sizes).clamp(min=1)):
        found, expected = _answers(ours, x, lengths), _answers(truth, x, lengths)
        for name, value in expected.items():
            _compare(found[name], value, f"{name} of {sizes}")


def _answers(module, x, lengths):
    """Outputs and the gradient of every parameter, by name."""
    names, weights = zip(*module.named_parameters(), strict=True)
    output = module(x.to(weights[0].dtype), lengths)
    gradients = torch.autograd.grad(output, weights, _wave(output))
    return {"output": output.detach()} | dict(zip(names, gradients, strict=True))


def _wave(output):
    """Return a gradient for an output: dense, and the same in every dtype."""
    angles = torch.arange(output.numel(), dtype=torch.float64)
    return angles.sin().view_as(output).to(output.dtype)


def _compare(found, expected, what):
    error = (found - expected).abs().max() / expected.abs().max()
    if not error <= TOLERANCE:  # NaN is an error too
        raise SystemExit(
            f"nothing is timed: {what} is wrong by {error:.1e} of its largest entry"
        )


def gates_with_tanh(cell):
    """Return how many tanh, or sigmoids, one unit costs at one step."""
    return len(CELLS[cell].gates) + (cell == "lstm")  # tanh of the memory cell
