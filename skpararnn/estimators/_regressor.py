"""Regressors of sequences."""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array

from ..utils._callbacks import with_callbacks
from ..utils._scale import scale_or_one
from ._base import BaseSequenceEstimator
from ._families import LRUFamily, ParaRNNFamily


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceRegressor(RegressorMixin, BaseSequenceEstimator):
    """What regressors add: scaled targets, one or several of them."""

    normalize_y: bool = True

    # ---------------------------------------------------------------- public methods

    @with_callbacks
    def partial_fit(self, X, y, sample_weight=None):
        """Train for one epoch, going on from the fitted state if there is one.

        Nothing is held out: `early_stopping` does not apply.

        The scale of the target is learned in the first call.

        Parameters
        ----------
        X : like in fit
            Sequences.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the loss.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        return self._fit(X, y, sample_weight, partial=True)

    def predict(self, X):
        """Value for each sequence.

        Parameters
        ----------
        X : like in fit
            Sequences.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            As the target of `fit` was, in float64.
        """
        answers = self._apply(X, "forward").astype(np.float64)
        answers = answers * self.target_scale_ + self.target_mean_
        return answers[:, 0] if self._y_is_1d else answers

    # --------------------------------------------------------------- steps of the fit

    def _check_y(self, y, name):
        y = check_array(
            y, ensure_2d=False, dtype=np.float64, input_name=name, estimator=self
        )
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "y is a column vector (n_samples, 1) where a 1D array (n_samples,) was "
                "expected; it is read as one, for example by y.ravel().",
                DataConversionWarning,
                stacklevel=5,
            )
            y = y[:, 0]
        return y

    def _learn(self, y, weight, classes):
        counted = y if weight is None else y[weight > 0]
        counted = counted.reshape(len(counted), -1)
        n_outputs = counted.shape[1]
        mean, scale = np.zeros(n_outputs), np.ones(n_outputs)
        if self.normalize_y:
            mean, scale = _mean_and_scale(
                counted, None if weight is None else weight[weight > 0]
            )
        return {
            "n_outputs_": n_outputs,
            "target_mean_": mean,
            "target_scale_": scale,
            "_y_is_1d": y.ndim == 1,
        }

    def _learned(self):
        names = "n_outputs_", "target_mean_", "target_scale_", "_y_is_1d"
        return {name: getattr(self, name) for name in names}

    def _encode(self, y, fitted, name):
        values = y.reshape(len(y), -1)
        if values.shape[1] != fitted["n_outputs_"]:
            raise ValueError(
                f"{name} has {values.shape[1]} outputs, expected "
                f"{fitted['n_outputs_']}."
            )
        with np.errstate(over="ignore"):
            target = (values - fitted["target_mean_"]) / fitted["target_scale_"]
            target = target.astype(self.dtype)
        if not np.isfinite(target).all():
            sample = np.argwhere(~np.isfinite(target))[0][0]
            raise ValueError(
                f"{name} is too large for {self.dtype} in sample {sample}; scale it, "
                'or set normalize_y=True or dtype="float64".'
            )
        return target

    def _weigh(self, y, weight, fitted):
        return weight

    def _strata(self, target, n_validation):
        return None

    def _make_criterion(self):
        from ._losses import SquaredError

        return SquaredError()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _mean_and_scale(y, weight):
    """Weighted mean and standard deviation of each output; 1 for constant ones."""
    # squares of very large or small numbers leave the range of a float
    size = np.abs(y).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    mean = np.average(y / size, axis=0, weights=weight)
    deviation = y / size - mean
    std = np.sqrt(np.average(deviation**2, axis=0, weights=weight))
    return mean * size, scale_or_one(std * size, mean * size)


# ------------------------------------------------------------------- public classes


@dataclass(kw_only=True, eq=False, repr=False)
class ParaRNNRegressor(ParaRNNFamily, SequenceRegressor):
    r"""Regress on sequences with small recurrent networks side by side.

    Parameters
    ----------
    d_s : int or sequence of K ints, default=2
        Size of one recurrent block. ``d_s=1`` is a diagonal recurrence; ``K=1`` makes
        the net a vanilla one of width `d_s`. A sequence gives each block its own size.
    K : int, default=32
        Number of blocks side by side. The width of a layer is ``K * d_s``.
    cell : {"rnn", "lstm", "gru"}, default="rnn"
        Kind of recurrent cell.
    activation : {"tanh", "relu", "sigmoid", "identity"}, default="tanh"
        Activation of ``cell="rnn"``; the gated cells have their own.
    n_layers : int, default=1
        Number of recurrent layers.
    aggregation : {None, "linear", "fc", "ffn"}, default=None
        What stands between the last layer and the linear head: nothing, a matrix, a
        matrix with bias and relu, or a two-layer net. It is applied once, to what
        `output` reads.
    bidirectional : bool, default=False
        Whether every layer also runs from the end to the start. Doubles the width that
        the next layer sees, and makes answers depend on later steps.
    dropout : float, default=0.0
        Share of the outputs of all layers but the last that is dropped in training; one
        layer has none to drop.
    init : {"uniform", "orthogonal", "identity", "rotation", "jordan", "chrono"} or \
            callable, default="uniform"
        Initial recurrent blocks. "chrono" sets gate biases for memories up to the
        longest training sequence. A callable takes a shape ``(R, K, d_s, d_s)`` and a
        `torch.Generator` and returns a tensor.
    output : {"last", "mean", "last+mean"}, default="last+mean"
        What the head reads: the state at the last real step, the mean of the states
        over real steps, or both side by side.
    normalize_y : bool, default=True
        Whether the net learns the target minus its mean, divided by its standard
        deviation (weighted, for each output); answers are scaled back.
    optimizer : {"adam", "adamw", "nadam", "radam", "rmsprop", "adagrad", "sgd"} or \
            class, default="adam"
        Name or class of a `torch.optim.Optimizer`.
    lr : float, default=0.01
        Learning rate.
    weight_decay : float, default=0.0
        Weight decay of the optimizer.
    lr_schedule : {None, "plateau", "cosine", "step"} or callable, default="cosine"
        How the learning rate changes: halved after 5 epochs in which the validation (or
        training) loss did not fall; a cosine to zero; times 0.3 after each third of the
        epochs; or by a factor that the callable returns for the number of the epoch,
        counted from 0. Each call of `fit` starts anew; `partial_fit` keeps `lr`.
    grad_clip : float or None, default=1.0
        Largest norm of the gradient; None does not clip.
    max_epochs : int, default=100
        Number of passes over the training data.
    batch_size : int or "full", default=32
        Samples in a training step.
    shuffle : bool, default=True
        Whether the samples are shuffled anew in every epoch. Sequences of unequal
        length then share a batch with others of about their length, unless they have
        weights.
    early_stopping : bool, default=False
        Whether to stop when the validation loss stops falling. The weights of the best
        epoch are restored in any case, also when `max_epochs` is reached.
    validation_fraction : float, default=0.1
        Share of the training samples that `early_stopping` sets aside, unless `fit`
        gets ``X_val`` and ``y_val``.
    validation_split : {"random", "last"}, default="random"
        Which samples are set aside: random ones (stratified by class), or the last
        ones, as overlapping windows need it.
    n_iter_no_change : int, default=10
        Epochs without progress after which `early_stopping` stops.
    tol : float, default=1e-4
        Fall of the validation loss that counts as progress.
    warm_start : bool, default=False
        Whether another `fit` goes on from the fitted weights, with the optimizer's
        state while the estimator stays in the same process. Parameters of the training
        may change in between, those of the net may not.
    n_channels : int, default=1
        Features of a step in 2-D input, whose ``n_columns / n_channels`` steps stand
        side by side.
    columns_order : {"oldest_first", "newest_first"}, default="oldest_first"
        Direction of time along the columns of 2-D input. Lag columns (lag 1, lag 2,
        ...) are "newest_first".
    columns_layout : {"by_step", "by_channel"}, default="by_step"
        Whether 2-D input has all features of a step together, or all steps of a
        feature.
    device : str, default="auto"
        Where to train and predict: "cpu", "cuda" or "cuda:1". "auto" takes CUDA if
        torch finds it. Between calls the weights are on the CPU. A model trained on
        CUDA predicts there, unless there is none or `device` has become "cpu".
    dtype : {"float32", "float64"}, default="float32"
        Precision.
    amp : bool, default=False
        Whether training steps multiply matrices outside the recurrent layers in 16
        bits: in bfloat16, or in float16 with a scaled loss on cards that lack it.
        Weights, states, losses and answers stay in float32. On the CPU it is bfloat16
        too, and hardly ever faster.
    compile : bool, default=False
        Whether to train through `torch.compile`, which takes a minute before the first
        step and needs a C++ compiler. Options are ``compile__mode`` and such in
        `net_params`.
    backend : {"auto", "cpu", "triton", "native", "reference"}, default="auto"
        Which implementation runs the loop over time, see `skpararnn.ops`.
    callbacks : list or None, default=None
        skorch callbacks, instances or (name, instance) pairs. They are copied; look at
        ``net_.callbacks_`` for what they recorded.
    net_params : dict or None, default=None
        Expert options: ``forget_bias`` (LSTM), ``reset_after`` (GRU), ``d_agg`` and
        ``d_ff`` (aggregation), and arguments of `skorch.NeuralNet` such as
        ``optimizer__betas``.
    verbose : int, default=0
        1 shows a progress bar on the standard error stream.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, the shuffling, the dropout and the split. Global
        random states are neither read nor changed.

    Attributes
    ----------
    target_mean_, target_scale_ : ndarray of shape (n_outputs,)
        What the target was normalised with; 0 and 1 for ``normalize_y=False``.
    net_ : skorch.NeuralNet
        The fitted net, on the CPU; made anew after unpickling.
    recurrent_blocks_ : list of n_layers ndarrays of shape (R, K, d_s, d_s)
        Recurrent weights of the R recurrent gates; one for the RNN, four (i f g o) for
        the LSTM, three (r z n) for the GRU. With ``bidirectional=True`` two entries a
        layer, forward first; for unequal block sizes an entry is a list of K arrays (R,
        d_k, d_k).
    n_features_in_ : int
        Features of a step; for 2-D input the number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X was a DataFrame or a list of DataFrames.
    n_channels_in_ : int
        Features of a step.
    n_outputs_ : int
        Outputs of the net: one a target.
    hidden_size_ : int
        Width of one direction of a layer: ``K * d_s``, or the sum of the sizes.
    n_parameters_ : int
        Number of trained parameters.
    n_iter_ : int
        Number of epochs.
    history_ : list of dict
        Record of each epoch: losses, validation score, seconds.
    loss_curve_ : list of float
        Training loss of each epoch.
    validation_curve_ : list of float or None
        Validation loss of each epoch that had one.
    validation_scores_ : list of float or None
        Validation R2 of each epoch.
    best_loss_ : float
        Lowest validation loss of the last call of `fit` or `partial_fit`, or training
        loss where nothing was validated.
    best_epoch_ : int
        The epoch of `best_loss_`, counted from 1.
    device_ : str
        Where the net was trained.

    See Also
    --------
    ParaRNNClassifier : The same net for labels.
    LRURegressor : The Light Recurrent Unit.

    Notes
    -----
    Block k follows the recurrence of a small network of its own,

    .. math:: h_t^{(k)} = \phi(W_x^{(k)} x_t + W_h^{(k)} h_{t-1}^{(k)} + b^{(k)}),

    all blocks read the whole input, and a linear head reads them all (equation 3 of
    [1]_, section 5 there for gated cells). Features should have unit scale: put a
    `StandardScaler` or `skpararnn.preprocessing.SequenceScaler` in front.

    This ParaRNN is parallel over hidden units; Apple's network of the same name is
    parallel over time.

    References
    ----------
    .. [1] Cai, Li, Huang, Li, "ParaRNN: An Interpretable and Parallelizable Recurrent
       Neural Network for Time-Dependent Data", 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from skpararnn import ParaRNNRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 10, 2))  # 100 sequences of 10 steps and 2 features
    >>> y = X[:, -3:, 0].sum(axis=1)
    >>> model = ParaRNNRegressor(K=8, max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict(X[:3]).shape
    (3,)
    >>> model.score(X, y) > 0.8
    True
    """


@dataclass(kw_only=True, eq=False, repr=False)
class LRURegressor(LRUFamily, SequenceRegressor):
    r"""Regress on sequences with Light Recurrent Units.

    Parameters
    ----------
    d_s : int or sequence of K ints, default=64
        Size of one recurrent block of the gate.
    K : int, default=1
        Number of blocks. ``K=1`` is the Light Recurrent Unit of [1]_; more blocks make
        the gate's recurrent matrix block diagonal, an extension of this library. The
        width of a layer is ``K * d_s``.
    candidate : {"highway", "tanh"}, default="highway"
        What layers above the first one write into their state: the state of the layer
        below as it is, or a tanh of its projection. The first layer always has the
        tanh. "highway" needs equal block sizes and one direction if ``n_layers > 1``.
    n_layers : int, default=1
        Number of recurrent layers.
    aggregation : {None, "linear", "fc", "ffn"}, default=None
        What stands between the last layer and the linear head: nothing, a matrix, a
        matrix with bias and relu, or a two-layer net. It is applied once, to what
        `output` reads.
    bidirectional : bool, default=False
        Whether every layer also runs from the end to the start. Doubles the width that
        the next layer sees, and makes answers depend on later steps.
    dropout : float, default=0.0
        Share of the outputs of all layers but the last that is dropped in training; one
        layer has none to drop.
    init : {"uniform", "orthogonal", "identity", "rotation", "jordan", "chrono"} or \
            callable, default="uniform"
        Initial recurrent blocks. "chrono" sets gate biases for memories up to the
        longest training sequence. A callable takes a shape ``(R, K, d_s, d_s)`` and a
        `torch.Generator` and returns a tensor.
    output : {"last", "mean", "last+mean"}, default="last+mean"
        What the head reads: the state at the last real step, the mean of the states
        over real steps, or both side by side.
    normalize_y : bool, default=True
        Whether the net learns the target minus its mean, divided by its standard
        deviation (weighted, for each output); answers are scaled back.
    optimizer : {"adam", "adamw", "nadam", "radam", "rmsprop", "adagrad", "sgd"} or \
            class, default="adam"
        Name or class of a `torch.optim.Optimizer`.
    lr : float, default=0.02
        Learning rate.
    weight_decay : float, default=0.0
        Weight decay of the optimizer.
    lr_schedule : {None, "plateau", "cosine", "step"} or callable, default="cosine"
        How the learning rate changes: halved after 5 epochs in which the validation (or
        training) loss did not fall; a cosine to zero; times 0.3 after each third of the
        epochs; or by a factor that the callable returns for the number of the epoch,
        counted from 0. Each call of `fit` starts anew; `partial_fit` keeps `lr`.
    grad_clip : float or None, default=1.0
        Largest norm of the gradient; None does not clip.
    max_epochs : int, default=100
        Number of passes over the training data.
    batch_size : int or "full", default=32
        Samples in a training step.
    shuffle : bool, default=True
        Whether the samples are shuffled anew in every epoch. Sequences of unequal
        length then share a batch with others of about their length, unless they have
        weights.
    early_stopping : bool, default=False
        Whether to stop when the validation loss stops falling. The weights of the best
        epoch are restored in any case, also when `max_epochs` is reached.
    validation_fraction : float, default=0.1
        Share of the training samples that `early_stopping` sets aside, unless `fit`
        gets ``X_val`` and ``y_val``.
    validation_split : {"random", "last"}, default="random"
        Which samples are set aside: random ones (stratified by class), or the last
        ones, as overlapping windows need it.
    n_iter_no_change : int, default=10
        Epochs without progress after which `early_stopping` stops.
    tol : float, default=1e-4
        Fall of the validation loss that counts as progress.
    warm_start : bool, default=False
        Whether another `fit` goes on from the fitted weights, with the optimizer's
        state while the estimator stays in the same process. Parameters of the training
        may change in between, those of the net may not.
    n_channels : int, default=1
        Features of a step in 2-D input, whose ``n_columns / n_channels`` steps stand
        side by side.
    columns_order : {"oldest_first", "newest_first"}, default="oldest_first"
        Direction of time along the columns of 2-D input. Lag columns (lag 1, lag 2,
        ...) are "newest_first".
    columns_layout : {"by_step", "by_channel"}, default="by_step"
        Whether 2-D input has all features of a step together, or all steps of a
        feature.
    device : str, default="auto"
        Where to train and predict: "cpu", "cuda" or "cuda:1". "auto" takes CUDA if
        torch finds it. Between calls the weights are on the CPU. A model trained on
        CUDA predicts there, unless there is none or `device` has become "cpu".
    dtype : {"float32", "float64"}, default="float32"
        Precision.
    amp : bool, default=False
        Whether training steps multiply matrices outside the recurrent layers in 16
        bits: in bfloat16, or in float16 with a scaled loss on cards that lack it.
        Weights, states, losses and answers stay in float32. On the CPU it is bfloat16
        too, and hardly ever faster.
    compile : bool, default=False
        Whether to train through `torch.compile`, which takes a minute before the first
        step and needs a C++ compiler. Options are ``compile__mode`` and such in
        `net_params`.
    backend : {"auto", "cpu", "triton", "native", "reference"}, default="auto"
        Which implementation runs the loop over time, see `skpararnn.ops`.
    callbacks : list or None, default=None
        skorch callbacks, instances or (name, instance) pairs. They are copied; look at
        ``net_.callbacks_`` for what they recorded.
    net_params : dict or None, default=None
        Expert options: ``d_agg`` and ``d_ff`` (aggregation), and arguments of
        `skorch.NeuralNet` such as ``optimizer__betas``.
    verbose : int, default=0
        1 shows a progress bar on the standard error stream.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, the shuffling, the dropout and the split. Global
        random states are neither read nor changed.

    Attributes
    ----------
    target_mean_, target_scale_ : ndarray of shape (n_outputs,)
        What the target was normalised with; 0 and 1 for ``normalize_y=False``.
    net_ : skorch.NeuralNet
        The fitted net, on the CPU; made anew after unpickling.
    recurrent_blocks_ : list of n_layers ndarrays of shape (R, K, d_s, d_s)
        Recurrent weights of the R recurrent gates; the LRU has one (f). With
        ``bidirectional=True`` two entries a layer, forward first; for unequal block
        sizes an entry is a list of K arrays (R, d_k, d_k).
    n_features_in_ : int
        Features of a step; for 2-D input the number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X was a DataFrame or a list of DataFrames.
    n_channels_in_ : int
        Features of a step.
    n_outputs_ : int
        Outputs of the net: one a target.
    hidden_size_ : int
        Width of one direction of a layer: ``K * d_s``, or the sum of the sizes.
    n_parameters_ : int
        Number of trained parameters.
    n_iter_ : int
        Number of epochs.
    history_ : list of dict
        Record of each epoch: losses, validation score, seconds.
    loss_curve_ : list of float
        Training loss of each epoch.
    validation_curve_ : list of float or None
        Validation loss of each epoch that had one.
    validation_scores_ : list of float or None
        Validation R2 of each epoch.
    best_loss_ : float
        Lowest validation loss of the last call of `fit` or `partial_fit`, or training
        loss where nothing was validated.
    best_epoch_ : int
        The epoch of `best_loss_`, counted from 1.
    device_ : str
        Where the net was trained.

    See Also
    --------
    LRUClassifier : The same net for labels.
    ParaRNNRegressor : Nets of small RNN, LSTM or GRU cells.

    Notes
    -----
    A gate f decides unit by unit how much of a candidate is written into the state, the
    only recurrent matrix is the gate's (equation 3 of [1]_),

    .. math:: f_t = \sigma(W_f x_t + U_f h_{t-1} + b_f), \quad
              h_t = (1 - f_t) h_{t-1} + f_t \tanh(W_c x_t).

    LRU is the Light Recurrent Unit here, not the Linear one. Features should have unit
    scale: put a `StandardScaler` or `skpararnn.preprocessing.SequenceScaler` in front.

    References
    ----------
    .. [1] Ye et al., "Light Recurrent Unit: Towards an Interpretable Recurrent Neural
       Network for Modeling Long-Range Dependency", Electronics 13(16), 3204, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from skpararnn import LRURegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 10, 2))  # 100 sequences of 10 steps and 2 features
    >>> y = X[:, -3:, 0].sum(axis=1)
    >>> model = LRURegressor(d_s=16, max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict(X[:3]).shape
    (3,)
    >>> model.score(X, y) > 0.8
    True
    """
