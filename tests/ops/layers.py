"""Random layers of every cell: what the contract of an op is tried on."""

from itertools import product

import torch

from skpararnn.cells import CELLS

# every combination of options of every row of the table
VARIANTS = [
    (cell, dict(zip(spec.options, values, strict=True)))
    for cell, spec in CELLS.items()
    for values in product(*spec.options.values())
]


def variant_id(variant):
    cell, options = variant
    return "-".join([cell, *map(str, options.values())])


class Layer:
    """An op with random arguments, by name in `tensors`."""

    def __init__(
        self, variant, dtype=torch.float64, *, N=3, T=5, d_in=2, K=3, d_s=2, seed=0
    ):
        self.cell, self.options = variant
        self.spec = CELLS[self.cell]
        self.generator = torch.Generator().manual_seed(seed)
        self.N, self.T, self.K, self.d_s, self.d = N, T, K, d_s, K * d_s
        self.d_in = self.d if self.options.get("candidate") == "highway" else d_in
        G, R = len(self.spec.gates), len(self.spec.recurrent)
        shapes = {
            "x": (N, T, self.d_in),
            "weight_x": (G, self.d, self.d_in),
            "weight_h": (R, K, d_s, d_s),
            "bias": (G, self.d),
        }
        extra = [name for name, on in self.spec.extra_bias.items() if self.options[on]]
        shapes |= dict.fromkeys(extra, (self.d,))
        shapes |= {f"{name}0": (N, self.d) for name in self.spec.states}
        self.tensors = {
            name: self.normal(shape, dtype) for name, shape in shapes.items()
        }

    def normal(self, shape, dtype=torch.float64):
        """Numbers small enough that no gate saturates and hides an error."""
        values = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return (0.5 * values).to(dtype)

    def lengths(self):
        """Lengths that differ; the longest is T."""
        lengths = torch.randint(1, self.T + 1, (self.N,), generator=self.generator)
        lengths[self.N // 2] = self.T
        return lengths

    def run(self, **changes):
        """Outputs and a tuple of last states; `changes` replace or add arguments."""
        # not with |, which older compilers of torch cannot read
        h, last = self.spec.op(**{**self.tensors, **self.options, **changes})
        return h, last if isinstance(last, tuple) else (last,)

    def run_and_gradients(self, **changes):
        """Outputs, last states and the gradient of every tensor, by name."""
        given = {name: t.detach().requires_grad_() for name, t in self.tensors.items()}
        h, states = self.run(**given | changes)
        values = {f"{n}_last": s for n, s in zip(self.spec.states, states, strict=True)}
        if h is not None:
            values["h"] = h
        loss = sum((v * wave(v)).sum() for v in values.values())
        used = {name: t for name, t in given.items() if name not in changes}
        grads = torch.autograd.grad(loss, used.values())
        values = {name: value.detach() for name, value in values.items()}
        return values | {
            f"d{name}": grad for name, grad in zip(used, grads, strict=True)
        }


def bounded_layer(variant, dtype=torch.float64, *, d_s, **sizes):
    """A layer whose recurrent blocks contract.

    In a large random block the states of an unbounded activation grow without end, and
    with them what rounding did at the first step.
    """
    layer = Layer(variant, dtype, d_s=d_s, **sizes)
    layer.tensors["weight_h"] *= 0.5 / d_s**0.5
    return layer


def wave(tensor):
    """Weights between -1 and 1 that depend on the place in the array, not its shape."""
    angle = torch.ones((), dtype=torch.float64)
    for size in tensor.shape:
        angle = 1.7 * angle[..., None] + torch.arange(size)
    return torch.sin(angle).to(tensor)
