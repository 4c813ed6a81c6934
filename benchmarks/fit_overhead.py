"""What `fit` costs beyond a bare loop of torch, and `predict` beyond one bare call.

    python benchmarks/fit_overhead.py

Both sides train the same module with the same loss, fused Adam and clipping, on batches
of a shuffled order, in turns. The module of a "stub" case is a linear map of the mean
over time: its batches are so cheap that the loop around them shows.
"""

import contextlib
import json
import statistics
import time
from typing import NamedTuple
from unittest import mock

import numpy as np
import torch

from skpararnn import ParaRNNRegressor
from skpararnn.estimators import _module


class Case(NamedTuple):
    """Sizes of the data, of the net and of the training."""

    name: str
    d_s: int = 2
    K: int = 4
    stub: bool = False
    n_samples: int = 10_000
    T: int = 50
    d_in: int = 8
    batch_size: int = 64
    max_epochs: int = 3
    backend: str = "auto"

    @property
    def n_batches(self):
        """Steps of the optimiser in a fit."""
        return self.max_epochs * -(-self.n_samples // self.batch_size)


CASES = [
    Case("stub", stub=True),
    Case("tiny"),
    Case("d=128", K=64),
]
WARM_UP, REPEATS = 1, 7


class Stub(torch.nn.Module):
    """Stands in for a net; as cheap as a module can be."""

    hidden_size = 1

    def __init__(self, d_in):
        super().__init__()
        self.head = torch.nn.utils.skip_init(torch.nn.Linear, d_in, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, x, lengths=None):
        """Return (N, 1)."""
        return self.head(x[:, 0])

    def n_parameters(self):
        """Return the number of parameters."""
        return self.head.in_features + 1


def make_data(case):
    """Return X (n_samples, T, d_in) and y (n_samples,), the mean of a feature."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((case.n_samples, case.T, case.d_in), np.float32)
    return X, X[:, :, 0].mean(1)


def make_estimator(case):
    """Return the estimator of a case."""
    return ParaRNNRegressor(
        d_s=case.d_s,
        K=case.K,
        batch_size=case.batch_size,
        max_epochs=case.max_epochs,
        normalize_y=False,
        lr_schedule=None,
        backend=case.backend,
        random_state=0,
    )


def module_of(case):
    """Replace the nets of the estimators by stubs, for a stub."""
    if not case.stub:
        return contextlib.nullcontext()
    return mock.patch.object(_module, "make_module", return_value=Stub(case.d_in))


def bare_fit(case, module, X, y):
    """Train as one would by hand."""
    x, y = torch.from_numpy(X), torch.from_numpy(y)[:, None]
    parameters = list(module.parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.01, fused=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(case.max_epochs):
        order = torch.randperm(len(x), generator=generator)
        for rows in order.split(case.batch_size):
            optimizer.zero_grad()
            loss = (module(x[rows]) - y[rows]).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()


@torch.no_grad()
def bare_predict(module, X):
    """Answer as one would by hand, in one call."""
    return module(torch.from_numpy(X)).numpy()


def measure(case, repeats=REPEATS):
    """Return the facts of a case as a dict: seconds of both sides, and the overhead."""
    X, y = make_data(case)
    model = make_estimator(case)
    with module_of(case):
        module = model.fit(X[:64], y[:64]).net_.module_
        seconds = medians(
            {
                "fit": lambda: model.fit(X, y),
                "bare_fit": lambda: bare_fit(case, module, X, y),
                "predict": lambda: model.predict(X),
                "bare_predict": lambda: bare_predict(module, X),
            },
            repeats,
        )
    extra = seconds["fit"] - seconds["bare_fit"]
    return {
        **case._asdict(),
        **{f"{name}_ms": round(1e3 * value, 3) for name, value in seconds.items()},
        "fit_ratio": round(seconds["fit"] / seconds["bare_fit"], 3),
        "microseconds_per_batch": round(1e6 * extra / case.n_batches, 1),
        "predict_ratio": round(seconds["predict"] / seconds["bare_predict"], 3),
    }


def medians(candidates, repeats):
    """Seconds of each candidate, in turns: what slows one slows all."""
    rounds = [
        {name: seconds_of(call) for name, call in candidates.items()}
        for _ in range(WARM_UP + repeats)
    ]
    return {
        name: statistics.median(times[name] for times in rounds[WARM_UP:])
        for name in candidates
    }


def seconds_of(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    for row in map(measure, CASES):
        print(json.dumps(row), flush=True)
