"""Data sets made to measure, with a truth that is known."""

import numpy as np

from ..utils._parameters import any_of, check_parameters, choice, integer, none, real


def make_adding_problem(n_samples=1000, n_timesteps=100, *, random_state=None):
    """Generate the adding problem: sum two marked values of a long sequence.

    Each sequence has two features. The first is uniform on [0, 1); the second is 0
    but for two ones, at a position drawn uniformly from the first half of the steps
    and at one drawn from the second half. The target is the sum of the two values
    that are marked. It takes memory over half a sequence on average.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of sequences.
    n_timesteps : int, default=100
        Steps of each, at least 2; an odd number makes the second half the longer one.
        Published results are for 100, 500 and more.
    random_state : int, RandomState instance or None, default=None
        Source of the draws. None draws anew each time, not from NumPy's global
        generator.

    Returns
    -------
    X : ndarray of shape (n_samples, n_timesteps, 2)
        Values and marks.
    y : ndarray of shape (n_samples,)
        Sums, on [0, 2) with mean 1.

    Raises
    ------
    ValueError
        If `n_samples` is not a positive integer or `n_timesteps` not an integer of at
        least 2.

    Notes
    -----
    Always answering 1 has a mean squared error of 1/6, the variance of the target:
    a model has learnt something once it is below.

    References
    ----------
    Hochreiter and Schmidhuber (1997), "Long short-term memory", Neural Computation 9
    (8), in the form used by Rusch and Mishra (2021), "Coupled oscillatory recurrent
    neural network (coRNN)", ICLR.

    Examples
    --------
    >>> from skpararnn.datasets import make_adding_problem
    >>> X, y = make_adding_problem(n_samples=5, n_timesteps=8, random_state=0)
    >>> X.shape, y.shape
    ((5, 8, 2), (5,))
    >>> bool((X[:, :, 0] * X[:, :, 1]).sum(axis=1)[0] == y[0])
    True
    """
    check_parameters(_ADDING_PROBLEM, locals())
    rng = _make_rng(random_state)

    half = n_timesteps // 2
    values = rng.uniform(size=(n_samples, n_timesteps))
    first = rng.randint(0, half, size=n_samples)
    second = rng.randint(half, n_timesteps, size=n_samples)

    row = np.arange(n_samples)
    marks = np.zeros_like(values)
    marks[row, first] = marks[row, second] = 1
    return np.stack([values, marks], axis=2), values[row, first] + values[row, second]


def make_rnn_process(
    n_samples=1000,
    n_timesteps=20,
    *,
    n_features=1,
    hidden_size=128,
    n_outputs=10,
    recurrent="normal",
    spectral_radius=0.9,
    noise_variance=1.0,
    return_weights=False,
    random_state=None,
):
    """Generate sequences whose target is read from the last state of a random RNN.

    For each sequence `x_1 .. x_T`, from `h_0 = 0`::

        h_t = tanh(W_h h_{t-1} + W_x x_t + b_h)      d = hidden_size
        y   = W_y h_T + b_y + e,                     e ~ N(0, noise_variance)

    With the weights known, a fitted network can be held against the truth, and on new
    sequences no model has an expected squared error below `noise_variance`.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of sequences.
    n_timesteps : int, default=20
        Steps of each, T.
    n_features : int, default=1
        Input features.
    hidden_size : int, default=128
        Width d of the state; a multiple of 4 for `recurrent="jordan"`.
    n_outputs : int or None, default=10
        Number of targets. None observes the state itself: `W_y` is the identity and
        both biases are 0, so that `y = h_T + e` has d columns.
    recurrent : {"normal", "jordan"}, default="normal"
        Law of `W_h`. "normal": independent normal entries, scaled to the spectral
        radius. "jordan": 4 x 4 blocks on the diagonal, in turn `J_4(lam)` (one real
        eigenvalue, four times) and `C_2(gamma, theta)` (one complex pair, twice), with
        ones above the diagonal, `|lam|` and `gamma` uniform between half the spectral
        radius and all of it, the sign of `lam` drawn, `theta` uniform on (0, pi).
    spectral_radius : float, default=0.9
        Largest modulus of the eigenvalues of `W_h`, for "jordan" its upper bound. Below
        1 the past fades; tanh keeps the state bounded in any case.
    noise_variance : float, default=1.0
        Variance of each component of e; 0 for no noise.
    return_weights : bool, default=False
        Return the weights, too.
    random_state : int, RandomState instance or None, default=None
        Source of the draws. None draws anew each time, not from NumPy's global
        generator.

    Returns
    -------
    X : ndarray of shape (n_samples, n_timesteps, n_features)
        Independent standard normal inputs.
    y : ndarray of shape (n_samples, n_outputs) or (n_samples, hidden_size)
        Targets.
    weights : :class:`sklearn.utils.Bunch`
        Only with `return_weights=True`: `weight_x (d, n_features)`,
        `weight_h (d, d)`, `bias_h (d,)`, `weight_y (n_outputs, d)` and
        `bias_y (n_outputs,)`.

    Raises
    ------
    ValueError
        If an argument is of the wrong type or out of range, or if `hidden_size` is not
        a multiple of 4 for `recurrent="jordan"`; names it.

    Notes
    -----
    The two settings are those of the ParaRNN paper: section 6.1 with the defaults, and
    section A of its supplement with `n_outputs=None`. It gives `hidden_size=128`, ten
    outputs, noise variances of 1 and 5, and 40,000 + 10,000 + 10,000 sequences in 6.1.
    It does not give T, the number of inputs (one in section A, by its count of
    parameters), nor the laws of inputs and weights; those are ours. Entries of `W_x`
    and `b_h` are normal with deviation `0.3 / sqrt(n_features)` and 0.3, which keeps
    the states clear of 0 and of saturation; those of `W_y` and `b_y` are standard
    normal.

    References
    ----------
    Cai, Li, Huang and Li (2026), "ParaRNN: An Interpretable and Parallelizable RNN for
    Time-Dependent Data", arXiv 2605.02692.

    Examples
    --------
    >>> from skpararnn.datasets import make_rnn_process
    >>> X, y, weights = make_rnn_process(
    ...     n_samples=50, hidden_size=8, n_outputs=None, recurrent="jordan",
    ...     return_weights=True, random_state=0)
    >>> X.shape, y.shape, weights.weight_h.shape
    ((50, 20, 1), (50, 8), (8, 8))
    """
    check_parameters(_RNN_PROCESS, locals())
    if recurrent == "jordan" and hidden_size % 4:
        raise ValueError(
            "hidden_size must be a multiple of 4 for recurrent='jordan', "
            f"got {hidden_size}."
        )
    rng = _make_rng(random_state)

    weight_h = _RECURRENT[recurrent](rng, hidden_size, spectral_radius)
    weights = _draw_weights(rng, weight_h, n_features, n_outputs)
    X = rng.standard_normal((n_samples, n_timesteps, n_features))
    signal = _run(X, weights) @ weights.weight_y.T + weights.bias_y
    y = signal + np.sqrt(noise_variance) * rng.standard_normal(signal.shape)
    return (X, y, weights) if return_weights else (X, y)


def _make_rng(random_state):
    from sklearn.utils import check_random_state

    # scikit-learn reads None as NumPy's global generator, which belongs to the user
    fresh = np.random.RandomState() if random_state is None else random_state
    return check_random_state(fresh)


def _draw_weights(rng, weight_h, n_features, n_outputs):
    from sklearn.utils import Bunch

    d = len(weight_h)
    weights = Bunch(
        weight_x=0.3 / np.sqrt(n_features) * rng.standard_normal((d, n_features)),
        weight_h=weight_h,
    )
    if n_outputs is None:
        weights.update(bias_h=np.zeros(d), weight_y=np.eye(d), bias_y=np.zeros(d))
    else:
        weights.update(
            bias_h=0.3 * rng.standard_normal(d),
            weight_y=rng.standard_normal((n_outputs, d)),
            bias_y=rng.standard_normal(n_outputs),
        )
    return weights


def _run(X, weights):
    """Return the last state, `(n_samples, d)`."""
    h = np.zeros((len(X), len(weights.weight_h)))
    for x in X.swapaxes(0, 1):
        h = np.tanh(h @ weights.weight_h.T + x @ weights.weight_x.T + weights.bias_h)
    return h


def _draw_normal(rng, d, radius):
    weight = rng.standard_normal((d, d))
    return weight * (radius / np.abs(np.linalg.eigvals(weight)).max())


def _draw_jordan(rng, d, radius):
    weight = np.zeros((d, d))
    for start in range(0, d, 4):
        draw_block = _draw_r4 if start % 8 == 0 else _draw_c2
        block = slice(start, start + 4)
        weight[block, block] = draw_block(rng, rng.uniform(radius / 2, radius))
    return weight


def _draw_r4(rng, modulus):
    return rng.choice([-1, 1]) * modulus * np.eye(4) + np.eye(4, k=1)


def _draw_c2(rng, modulus):
    theta = rng.uniform(0, np.pi)
    rotation = [[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]]
    return np.kron(np.eye(2), modulus * np.array(rotation)) + np.eye(4, k=2)


_RECURRENT = {"normal": _draw_normal, "jordan": _draw_jordan}

_ADDING_PROBLEM = {"n_samples": integer(1), "n_timesteps": integer(2)}
_RNN_PROCESS = {
    "n_samples": integer(1),
    "n_timesteps": integer(1),
    "n_features": integer(1),
    "hidden_size": integer(1),
    "n_outputs": any_of(none(), integer(1)),
    "recurrent": choice(*_RECURRENT),
    "spectral_radius": real(0, low_open=True),
    "noise_variance": real(0),
}
