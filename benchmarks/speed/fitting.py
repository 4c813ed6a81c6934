"""Estimators beside skorch with torch.nn.RNN, as a user would write it."""

import re
import resource
import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetRegressor

from skpararnn import ParaRNNRegressor

from .layers import TWINS

LEARNING_RATE = 0.01
GRID = {"lr": [0.001, 0.01]}
N_SPLITS = 3  # two values, three splits: six fits


class TorchNet(torch.nn.Module):
    """One layer and a linear head that reads the last state."""

    def __init__(self, cell, d_in, d):
        super().__init__()
        self.layer = TWINS[cell](d_in, d, batch_first=True)
        self.head = torch.nn.Linear(d, 1)

    def forward(self, x):
        """Return (N, 1)."""
        h, _ = self.layer(x)
        return self.head(h[:, -1])


def ours(sizes):
    """Return our estimator; its read-out is that of the baseline."""
    return ParaRNNRegressor(
        cell=sizes.cell,
        d_s=sizes.d_s,
        K=sizes.K,
        output="last",
        lr=LEARNING_RATE,
        max_epochs=sizes.max_epochs,
        batch_size=sizes.batch_size,
        random_state=0,
    )


def torchs(sizes):
    """Return skorch's, with its defaults but for what must be equal."""
    return NeuralNetRegressor(
        TorchNet,
        module__cell=sizes.cell,
        module__d_in=sizes.d_in,
        module__d=sizes.K * sizes.d_s,
        optimizer=torch.optim.Adam,
        lr=LEARNING_RATE,
        max_epochs=sizes.max_epochs,
        batch_size=sizes.batch_size,
        train_split=None,
        verbose=0,
    )


def make_data(sizes):
    """Return X (n_samples, T, d_in) and y (n_samples,), a mean of a feature."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((sizes.n_samples, sizes.T, sizes.d_in), np.float32)
    return X, X[:, :, 0].mean(1)


def sides(sizes):
    """Return both estimators with their data: {"ours": (estimator, X, y), ...}."""
    X, y = make_data(sizes)
    column = y[:, None]  # the shape of the net's output: skorch leaves that to the user
    return {"ours": (ours(sizes), X, y), "baseline": (torchs(sizes), X, column)}


def fits(sizes):
    """Return both fits, as functions."""
    return {
        side: lambda estimator=estimator, X=X, y=y: estimator.fit(X, y)
        for side, (estimator, X, y) in sides(sizes).items()
    }


def predictions(sizes):
    """Return both predictions for all rows, as functions."""
    few = sizes._replace(n_samples=sizes.batch_size, max_epochs=1)
    fitted = {side: fit() for side, fit in fits(few).items()}
    X, _ = make_data(sizes)
    return {
        side: lambda estimator=estimator: estimator.predict(X)
        for side, estimator in fitted.items()
    }


def searches(sizes):
    """Return both grid searches, as functions."""
    options = {"cv": N_SPLITS, "refit": False, "n_jobs": sizes.n_jobs}
    options["scoring"] = "neg_mean_squared_error"
    return {
        side: lambda estimator=estimator, X=X, y=y: GridSearchCV(
            estimator, GRID, **options
        ).fit(X, y)
        for side, (estimator, X, y) in sides(sizes).items()
    }


def print_peak(side, sizes):
    """Print by how many bytes a fit raises the memory of this process, at its peak."""
    torch.set_num_threads(sizes.threads)
    short = sizes._replace(T=8)
    fits(short)[side]()  # imports, and what is allocated once
    fit = fits(sizes)[side]
    before = _peak()
    fit()
    print(_peak() - before)


def _peak():
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of Linux starts at the memory of the parent process
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", status.read_text()).group(1))
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
