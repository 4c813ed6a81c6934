"""What an estimator costs beyond a bare loop of torch over the same module.

Both sides train the same module with the same loss, fused Adam and clipping, on batches
of a shuffled order. With a stub for a module the batches are so cheap that the loop
around them shows.
"""

from unittest import mock

import torch

from skpararnn import ParaRNNRegressor
from skpararnn.estimators import _module

from .fitting import LEARNING_RATE, make_data


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


def sides(sizes, stub):
    """Return both ways to train and both to predict, as functions by name."""
    X, y = make_data(sizes)
    model = ParaRNNRegressor(
        d_s=sizes.d_s,
        K=sizes.K,
        lr=LEARNING_RATE,
        lr_schedule=None,
        normalize_y=False,
        batch_size=sizes.batch_size,
        max_epochs=sizes.max_epochs,
        random_state=0,
    )

    def fit(n_samples=None):
        if not stub:
            return model.fit(X[:n_samples], y[:n_samples])
        with mock.patch.object(_module, "make_module", return_value=Stub(sizes.d_in)):
            return model.fit(X[:n_samples], y[:n_samples])

    module = fit(sizes.batch_size).net_.module_
    return {
        "fit": fit,
        "bare fit": lambda: bare_fit(sizes, module, X, y),
        "predict": lambda: model.predict(X),
        "bare predict": lambda: bare_predict(module, X),
    }


def bare_fit(sizes, module, X, y):
    """Train as one would by hand."""
    x, y = torch.from_numpy(X), torch.from_numpy(y)[:, None]
    parameters = list(module.parameters())
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(sizes.max_epochs):
        order = torch.randperm(len(x), generator=generator)
        for rows in order.split(sizes.batch_size):
            optimizer.zero_grad()
            loss = (module(x[rows]) - y[rows]).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()


@torch.no_grad()
def bare_predict(module, X):
    """Answer as one would by hand, in one call."""
    return module(torch.from_numpy(X)).numpy()
