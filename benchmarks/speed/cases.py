"""What is measured, as data: the sizes, and the floor and the aim of the result."""

from typing import NamedTuple


class Layer(NamedTuple):
    """A layer, or a stack of them, and its input; the names are those of the ops."""

    cell: str = "rnn"
    d_s: int = 2
    K: int = 64
    N: int = 64
    T: int = 784
    d_in: int = 8
    outputs: str = "last"
    threads: int = 1
    n_layers: int = 1


class Fit(NamedTuple):
    """An estimator and its data."""

    cell: str = "rnn"
    d_s: int = 2
    K: int = 64
    n_samples: int = 10_000
    T: int = 50
    d_in: int = 8
    batch_size: int = 64
    max_epochs: int = 2
    threads: int = 1
    n_jobs: int = 1


class Fresh(NamedTuple):
    """Statements for an interpreter that has just started, ours and the baseline's."""

    code: str
    baseline: str | None = None


class Case(NamedTuple):
    """A row of the report.

    Parameters
    ----------
    name : str
    measure : str
        A row of `MEASURES`.
    sizes : Layer, Fit or Fresh
    floor, aim : float, optional
        What the measured value must reach, and what it should; for AVX-512 where the
        measure depends on the vector width. None: it is only shown.
    group : str, default="table"
        "table", or the name of the size against which the case is drawn.
    """

    name: str
    measure: str
    sizes: NamedTuple
    floor: float | None = None
    aim: float | None = None
    group: str = "table"


TABLE = [
    Case("rnn, d_in=1", "train", Layer(d_in=1), 25, 40),
    Case("rnn, d_in=8", "train", Layer(d_in=8), 18, 30),
    Case("rnn, d_in=1, every state", "train", Layer(d_in=1, outputs="all"), 10, 15),
    Case("rnn, d_in=8, every state", "train", Layer(d_in=8, outputs="all"), 10, 15),
    Case("rnn, d_in=1, mean", "train", Layer(d_in=1, outputs="mean"), 20, 35),
    Case("rnn, d_in=8, mean", "train", Layer(d_in=8, outputs="mean"), 15, 25),
    Case("lstm, d_in=1", "train", Layer("lstm", d_in=1), 12, 20),
    Case("lstm, d_in=8", "train", Layer("lstm", d_in=8), 12, 20),
    Case("gru, d_in=1", "train", Layer("gru", d_in=1), 20, 35),
    Case("gru, d_in=8", "train", Layer("gru", d_in=8), 20, 35),
    Case("lru, d_in=1", "train", Layer("lru", d_in=1), 35, 60),
    Case("lru, d_in=8", "train", Layer("lru", d_in=8), 35, 60),
    Case("dense lru, d_in=1", "train", Layer("lru", d_s=64, K=1, d_in=1), 3, 8),
    Case("dense lru, d_in=8", "train", Layer("lru", d_s=64, K=1, d_in=8), 3, 8),
    Case("two layers, rnn", "train", Layer("rnn", n_layers=2), 3.5, 5),
    Case("two layers, lstm", "train", Layer("lstm", n_layers=2), 2, 3),
    Case("two layers, gru", "train", Layer("gru", n_layers=2), 2, 3),
    Case("rnn, d_in=1, two threads", "train", Layer(d_in=1, threads=2)),
    Case("rnn, d_in=8, two threads", "train", Layer(d_in=8, threads=2)),
    Case("rnn, d_in=1", "infer", Layer(d_in=1), 22, 35),
    Case("rnn, d_in=8", "infer", Layer(d_in=8), 15, 25),
    Case("lstm, d_in=8", "infer", Layer("lstm", d_in=8)),
    Case("gru, d_in=8", "infer", Layer("gru", d_in=8)),
    Case("lru, d_in=8", "infer", Layer("lru", d_in=8)),
    Case("rnn, T=100", "train by the reference", Layer(T=100)),
    Case("gru, T=100", "train by the reference", Layer("gru", T=100)),
    Case("rnn", "ceiling, infer", Layer(d_in=1), 0.85, 0.95),
    Case("lstm", "ceiling, infer", Layer("lstm", d_in=1)),
    Case("gru", "ceiling, infer", Layer("gru", d_in=1)),
    Case("lru", "ceiling, infer", Layer("lru", d_in=1)),
    Case("rnn", "ceiling, train", Layer(d_in=1), 0.65, 0.80),
    Case("lstm", "ceiling, train", Layer("lstm", d_in=1)),
    Case("gru", "ceiling, train", Layer("gru", d_in=1)),
    Case("lru", "ceiling, train", Layer("lru", d_in=1)),
    # a state every 32 steps, 25 of 784, and the last one
    Case("rnn", "held for backward", Layer(), 1 / 16, 26 / 784),
    Case("lstm", "held for backward", Layer("lstm")),
    Case("rnn, every state", "held for backward", Layer(outputs="all")),
    Case("rnn", "half the rows short", Layer(), 0.65, 0.57),
    Case("lstm", "half the rows short", Layer("lstm")),
    Case("rnn, d_in=8", "step", Layer(N=1, T=1), 3, 1),
    Case("lstm, d_in=8", "step", Layer("lstm", N=1, T=1)),
    Case("rnn, T=50", "epoch of fit", Fit(), 7, 12),
    Case("rnn, T=50", "predict", Fit(), 10, 15),
    Case("tiny rnn", "fit beyond a bare loop", Fit(K=4), 1.15, 1.05),
    Case("rnn, T=50", "fit beyond a bare loop", Fit()),
    Case("stub", "the loop of fit alone", Fit()),
    Case("rnn, T=50", "predict beyond one bare call", Fit()),
    Case(
        "rnn, T=20000",
        "memory of fit",
        Fit(n_samples=4, T=20_000, batch_size=4),
        floor=300,
        aim=100,
    ),
    Case("6 fits", "grid search", Fit(n_samples=640)),
    Case("6 fits, two processes", "grid search", Fit(n_samples=640, n_jobs=2)),
    Case("import skpararnn", "import", Fresh("import skpararnn")),
    Case(
        "construct an estimator",
        "import",
        Fresh("import skpararnn; skpararnn.ParaRNNRegressor()"),
    ),
    Case("the ops", "import", Fresh("import skpararnn.ops", baseline="import torch")),
]

# the time against one size at a time, as in figure 2(c) of the ParaRNN paper
SWEEPS = {
    "d_s": [Layer(d_s=d_s, K=128 // d_s) for d_s in (1, 2, 4, 8, 16, 32, 64, 128)],
    "T": [Layer(T=T) for T in (50, 100, 200, 400, 800, 1600, 3200)],
    "K": [Layer(K=K) for K in (1, 2, 4, 8, 16, 32, 64, 128)],
}


def _sweep(size, layers):
    return [
        Case(f"{size}={getattr(layer, size)}", measure, layer, group=size)
        for measure in ("train", "infer")
        for layer in layers
    ]


CASES = TABLE + [case for item in SWEEPS.items() for case in _sweep(*item)]
