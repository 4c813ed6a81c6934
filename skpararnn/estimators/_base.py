"""What all estimators share: reading X, fitting, predicting and pickling.

torch, skorch and the nets are imported inside methods, so that constructing, cloning
and printing an estimator does not load them.
"""

import pickle
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import __version__
from ..utils import _parameters as rule
from ..utils._callbacks import CallbackSupportMixin, EpochHooks, with_callbacks
from ..utils._sequences import COLUMNS_LAYOUTS, COLUMNS_ORDERS, check_sequences
from ._checks import (
    check_weight,
    columns_of,
    refuse_what_is_no_target,
    warn_if_transposed,
)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseSequenceEstimator(CallbackSupportMixin, BaseEstimator):
    """Base of the recurrent estimators.

    The fields are the constructor parameters that all of them have; the generated
    ``__init__`` does what scikit-learn asks for: it stores them untouched. Subclasses
    add fields, name their cell, and say how a target is read, encoded and answered.
    """

    d_s: object = 2
    K: int = 32
    n_layers: int = 1
    aggregation: str | None = None
    bidirectional: bool = False
    dropout: float = 0.0
    init: object = "uniform"
    output: str = "last+mean"
    optimizer: object = "adam"
    lr: float = 0.01
    weight_decay: float = 0.0
    lr_schedule: object = "cosine"
    grad_clip: float | None = 1.0
    max_epochs: int = 100
    batch_size: object = 32
    shuffle: bool = True
    early_stopping: bool = False
    validation_fraction: float = 0.1
    validation_split: str = "random"
    n_iter_no_change: int = 10
    tol: float = 1e-4
    warm_start: bool = False
    n_channels: int = 1
    columns_order: str = "oldest_first"
    columns_layout: str = "by_step"
    device: str = "auto"
    dtype: str = "float32"
    amp: bool = False
    compile: bool = False
    backend: str = "auto"
    callbacks: list | None = None
    net_params: dict | None = None
    verbose: int = 0
    random_state: object = None

    # ---------------------------------------------------------------- public methods

    @with_callbacks
    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None):
        """Fit the net to sequences.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_timesteps, n_features) or \
                (n_samples, n_timesteps), or list of arrays
            Sequences. Steps of a 3-D array that are NaN in all features, at the start
            or the end, are padding. Arrays of a list have shape
            (n_timesteps_i, n_features) or (n_timesteps_i,). Rows of a 2-D array are
            sequences of one feature (or of ``n_channels`` features).
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the loss. A sample of weight 0 is left out; only
            its label still counts for ``classes_``.
        X_val : like X, default=None
            Sequences for the validation loss; without them `early_stopping` splits off
            a part of X.
        y_val : like y, default=None
            Their target.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If a parameter, X or y is not as described; the message names the sample
            and the step. If the loss is not finite in the first epoch.
        """
        return self._fit(X, y, sample_weight, X_val, y_val)

    def hidden_states(self, X):
        """States of the last layer at every step.

        Parameters
        ----------
        X : like in fit
            Sequences.

        Returns
        -------
        ndarray of shape (n_samples, n_timesteps, hidden_size_)
            NaN at padded steps; a list (or object array) of arrays of shape
            (n_timesteps_i, hidden_size_) if X is one. With ``bidirectional=True`` the
            backward states follow the forward ones, ``2 * hidden_size_`` in all.
        """
        return self._apply(X, "hidden_states", per_step=True)

    @property
    def net_(self):
        """The fitted skorch net, on the CPU; made anew after unpickling."""
        check_is_fitted(self)
        if "_net" not in vars(self):
            self._net = self._make_net(self._fitted_module())
        return self._net

    @property
    def recurrent_blocks_(self):
        """Recurrent weights: a list with one array (R, K, d_s, d_s) for each layer.

        R is the number of recurrent gates. With ``bidirectional=True`` the list has
        two entries a layer, forward first. For unequal block sizes an entry is a list
        of K arrays (R, d_k, d_k).
        """
        from ._module import to_numpy

        check_is_fitted(self)
        return to_numpy(self._fitted_module().recurrent_blocks())

    # --------------------------------------------------------------- steps of the fit

    def _fit(
        self,
        X,
        y,
        sample_weight=None,
        X_val=None,
        y_val=None,
        *,
        partial=False,
        classes=None,
    ):
        """Fit anew or go on; `self` changes in the last step only."""
        from . import _device

        self._check_parameters()
        go_on = (partial or self.warm_start) and hasattr(self, "n_iter_")
        sequences, fitted = self._read_X(X, new=not go_on)
        y, weight = self._read_y(y, sample_weight, sequences)
        fitted |= self._learned() if go_on else self._learn(y, weight, classes)
        fitted["_split_seed"], net_seed, shuffle_seed = self._draw_seeds(go_on)

        weight = self._weigh(y, weight, fitted)
        train_set = self._make_dataset(sequences, y, weight, fitted)
        validation_set = None
        if not partial:
            train_set, validation_set = self._hold_out(train_set, X_val, y_val, fitted)

        fitted["device_"] = _device.resolve(self.device)
        module = self._make_module(train_set, fitted, net_seed, go_on)
        with _device.training_on(fitted["device_"]):
            sets = train_set, validation_set, shuffle_seed
            self._train(module, sets, fitted, go_on, partial, X=X, y=y)
        self._keep(fitted, go_on)
        return self

    def _keep(self, fitted, go_on):
        """Take over what was learned, and nothing of an earlier fit."""
        if not go_on:
            vars(self).pop("feature_names_in_", None)
        vars(self).pop("_bare_module", None)
        vars(self).update(fitted)

    def _check_parameters(self):
        rule.check_parameters(RULES, self.get_params(deep=False))
        if self.amp and self.dtype == "float64":
            raise ValueError(
                "amp=True trains in 16 bits where it can, dtype='float64' asks for 64: "
                "choose one of them."
            )

    def _read_X(self, X, new, name="X"):
        """Sequences, and the attributes that say what a later X must look like."""
        reading = self._reading if not new else {n: getattr(self, n) for n in READING}
        if not new:
            self._check_columns(X)
        sequences = check_sequences(X, **reading, estimator=self, name=name)
        if not new:
            self._check_same_kind(X, sequences, name)
            return sequences, {}
        if sequences.container == "2d":
            columns = columns_of(X)
        else:
            columns = {"n_features_in_": sequences.n_features}
            warn_if_transposed(sequences)
        if sequences.columns is not None:
            columns["feature_names_in_"] = np.array(sequences.columns, dtype=object)
        return sequences, columns | {
            "n_channels_in_": sequences.n_features,
            "_reads_columns": sequences.container == "2d",
            "_reading": reading,
        }

    def _check_columns(self, X):
        """Refuse a frame with other columns than the one of `fit`.

        Its names come before its values, which wrong names may have filled with NaN.
        """
        n_levels = getattr(getattr(X, "columns", None), "nlevels", 1)
        if self._reads_columns and hasattr(X, "columns") and n_levels == 1:
            validate_data(self, X, skip_check_array=True, reset=False)

    def _check_same_kind(self, X, sequences, name):
        """Refuse an X that does not fit the one of `fit`."""
        if sequences.container == "2d":
            if not self._reads_columns:
                m = self.n_channels_in_
                raise ValueError(
                    f"{name} is 2D, but {type(self).__name__} was fitted on sequences "
                    f"of {m} features: pass a 3D array (n_samples, n_timesteps, {m}) "
                    f"or a list of arrays, for one feature {name}[:, :, None]."
                )
            if not hasattr(X, "columns"):
                validate_data(self, X, skip_check_array=True, reset=False)
        elif sequences.n_features != self.n_channels_in_:
            raise ValueError(
                f"{name} has {sequences.n_features} features, but "
                f"{type(self).__name__} is expecting {self.n_channels_in_} features as "
                "input."
            )
        given, known = sequences.columns, getattr(self, "feature_names_in_", None)
        if given is not None and known is not None and list(given) != list(known):
            raise ValueError(
                f"the frames of {name} have the columns {list(given)}, but "
                f"{type(self).__name__} was fitted with {list(known)}."
            )

    def _read_y(self, y, sample_weight, sequences, name="y"):
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None."
            )
        refuse_what_is_no_target(y, name)
        y = self._check_y(y, name)
        check_consistent_length(sequences.lengths, y)
        return y, check_weight(sample_weight, len(y))

    def _draw_seeds(self, go_on):
        """Seeds of the split, of the net and of the shuffling.

        Global random states are never touched. A fit that goes on must not repeat the
        shuffles of the first one, but must not train on what that one validated on.
        """
        if self.random_state is None:
            rng = np.random.RandomState()
        else:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            rng = np.random.RandomState([seed, self.n_iter_ if go_on else 0])
        split, *others = rng.randint(2**31 - 1, size=3)
        return self._split_seed if go_on else split, *others

    def _make_dataset(self, sequences, y, weight, fitted, name="y"):
        from ._data import SequenceDataset

        rows = None
        if weight is not None and not weight.all():
            rows = np.flatnonzero(weight)
            if len(rows) == 0:
                raise ValueError("the weights of all samples are zero: nothing to fit.")
            y, weight = y[rows], weight[rows]
        if weight is not None and (weight == 1).all():
            weight = None
        return SequenceDataset(sequences, self._encode(y, fitted, name), weight, rows)

    def _hold_out(self, dataset, X_val, y_val, fitted):
        """Data to train on, and to validate on or None."""
        if X_val is not None or y_val is not None:
            return dataset, self._read_validation(X_val, y_val, fitted)
        if not self.early_stopping:
            return dataset, None
        train, validation = self._split(dataset, fitted["_split_seed"])
        return dataset.take(train), dataset.take(validation)

    def _read_validation(self, X_val, y_val, fitted):
        if X_val is None or y_val is None:
            raise ValueError("X_val and y_val go together: one of them is None.")
        # reads X_val as self will read X when the fit is done
        reader = type(self)(**self.get_params(deep=False))
        vars(reader).update(vars(self) | fitted)
        sequences, _ = reader._read_X(X_val, new=False, name="X_val")
        y_val, _ = self._read_y(y_val, None, sequences, name="y_val")
        return self._make_dataset(sequences, y_val, None, fitted, name="y_val")

    def _split(self, dataset, seed):
        """Row numbers to train on and to validate on."""
        n = len(dataset)
        n_validation = int(np.ceil(self.validation_fraction * n))
        if n_validation >= n:
            raise ValueError(
                "early_stopping has no sample left to train on: got "
                f"{n} samples and validation_fraction={self.validation_fraction}."
            )
        rows = np.arange(n)
        if self.validation_split == "last":
            return rows[:-n_validation], rows[-n_validation:]
        return train_test_split(
            rows,
            test_size=n_validation,
            random_state=seed,
            stratify=self._strata(dataset.target, n_validation),
        )

    def _make_module(self, train_set, fitted, seed, go_on):
        from . import _module

        architecture = self._describe_module(train_set, fitted)
        # once there are weights, a module made anew needs no initial ones
        kept = architecture | {"init": "uniform", "t_max": None, "forget_bias": None}
        fitted["_architecture"] = kept
        if not go_on:
            return _module.make_module(architecture, seed)
        self._refuse_other_architecture(kept)
        module = _module.make_module(kept, seed)
        _module.load_weights(module, self._weights)
        return module

    def _refuse_other_architecture(self, architecture):
        for name, value in architecture.items():
            if name != "backend" and value != self._architecture.get(name):
                name = {"readout": "output"}.get(name, name)
                raise ValueError(
                    f"{name} has changed since the first fit, and a fit that goes on "
                    "(warm_start, partial_fit) cannot change the net: set it back, or "
                    "fit with warm_start=False."
                )

    def _describe_module(self, train_set, fitted):
        """Arguments of the net's module."""
        names = ("K", "n_layers", "aggregation", "bidirectional", "dropout")
        module_options, _ = self._split_net_params()
        longest = int(train_set.lengths.max())
        return {
            "d_in": train_set.sequences.n_features,
            "d_out": fitted["n_outputs_"],
            "readout": self.output,
            "init": self.init,
            "t_max": longest if self.init == "chrono" else None,
            "dtype": self.dtype,
            "backend": self.backend,
            **{name: getattr(self, name) for name in names},
            "d_s": tuple(self.d_s) if np.ndim(self.d_s) else self.d_s,
            **self._cell_options(),
            **module_options,
        }

    def _split_net_params(self):
        """Options of the module, and those of skorch."""
        options = dict(self.net_params or {})
        module_options = {n: options.pop(n) for n in MODULE_OPTIONS if n in options}
        return module_options, options

    def _make_training_net(
        self, module, device, train_set, validation_set, shuffle_seed
    ):
        """Put a skorch net around a module that is to be trained."""
        return self._make_net(
            module,
            batch_size=len(train_set) if self.batch_size == "full" else self.batch_size,
            shuffle_seed=shuffle_seed if self.shuffle else None,
            validation=validation_set,
            device=device,
            amp=self.amp,
            compile=self.compile,
        )

    def _make_net(self, module, **training):
        """Put a skorch net around a module."""
        from . import _training

        at_rest = {
            "batch_size": 1 if self.batch_size == "full" else self.batch_size,
            "shuffle_seed": None,
            "validation": None,
            "device": "cpu",
            "amp": False,
            "compile": False,
        }
        return _training.build_net(
            module,
            self._make_criterion(),
            optimizer=self.optimizer,
            lr=self.lr,
            weight_decay=self.weight_decay,
            lr_schedule=self.lr_schedule,
            grad_clip=self.grad_clip,
            max_epochs=self.max_epochs,
            callbacks=self.callbacks,
            options=self._split_net_params()[1],
            **at_rest | training,
        )

    def _train(self, module, sets, fitted, go_on, partial, **data):
        """Run the epochs, and add to `fitted` what they left behind."""
        from . import _data, _training

        train_set, validation_set, shuffle_seed = sets
        device = fitted["device_"]
        train_set, validation_set = _data.place([train_set, validation_set], device)
        net = self._make_training_net(
            module, device, train_set, validation_set, shuffle_seed
        )
        stops = self.early_stopping and not partial
        stopping = _training.Stopping(
            self.n_iter_no_change if stops else None, self.tol
        )
        max_epochs = 1 if partial else self.max_epochs
        if go_on and "_net" in vars(self):
            _training.copy_optimizer_state(self._net, net)

        def record():
            fitted.update(self._describe_fit(net, stopping, go_on))
            return fitted

        hooks = EpochHooks(self, max_epochs, record, **data)
        try:
            _training.train(
                net,
                train_set,
                max_epochs=max_epochs,
                stopping=stopping,
                hooks=hooks,
                progress=self.verbose > 0,
            )
        finally:
            _training.release(net, keep_optimizer=self.warm_start or partial)
        record()["_net"] = net
        hooks.end_fit()

    def _describe_fit(self, net, stopping, go_on):
        """Fitted attributes, as the training stands."""
        from . import _module, _training

        earlier = self.history_ if go_on else []
        history = earlier + _training.list_epochs(net, start=len(earlier) + 1)
        validation = [e["valid_loss"] for e in history if "valid_loss" in e]
        score = f"valid_{net.criterion_.score_name}"
        scores = [e[score] for e in history if score in e]
        best_epoch = stopping.best_epoch
        return {
            "n_iter_": len(history),
            "history_": history,
            "loss_curve_": [e["train_loss"] for e in history],
            "validation_curve_": validation or None,
            "validation_scores_": scores or None,
            "best_loss_": stopping.best_loss,
            "best_epoch_": best_epoch and len(earlier) + best_epoch,
            "hidden_size_": net.module_.hidden_size,
            "n_parameters_": net.module_.n_parameters(),
            "_weights": _module.weights_to_numpy(net.module_),
        }

    # --------------------------------------------------------------------- answering

    def _apply(self, X, method, per_step=False):
        """What the module's method answers for X."""
        check_is_fitted(self)
        sequences, _ = self._read_X(X, new=False)
        from . import _device, _inference, _module

        device = _device.at_hand(self.device_, asked_for=self.device)
        with _device.current(device):
            module = _module.module_on(self._fitted_module(), device)
            answers = _inference.infer(
                getattr(module, method), sequences, device=device, per_step=per_step
            )
        return sequences.unflatten(answers) if per_step else answers

    def _fitted_module(self):
        """The torch module, on the CPU; made anew after unpickling."""
        if "_net" in vars(self):
            return self._net.module_
        if "_bare_module" not in vars(self):
            from . import _module

            module = _module.make_module(self._architecture, seed=0)
            _module.load_weights(module, self._weights)
            self._bare_module = module.eval()
        return self._bare_module

    # ------------------------------------------------------------- tags and persistence

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def __getstate__(self):
        state = dict(super().__getstate__())
        for name in ("_net", "_bare_module"):  # their weights are in _weights
            state.pop(name, None)
        state["_skpararnn_version"] = __version__
        # unfitted ones travel to workers, whose picklers can do more than pickle
        is_fitted = "n_iter_" in state
        if is_fitted and not _can_be_pickled(state["callbacks"]):
            warnings.warn(
                f"the callbacks of {type(self).__name__} cannot be pickled and are "
                "left out; set them again after loading to fit it again.",
                stacklevel=2,
            )
            state["callbacks"] = None
        return state

    def __setstate__(self, state):
        state = dict(state)
        version = state.pop("_skpararnn_version", "unknown")
        if version != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=f"{__version__} of skpararnn",
                    original_sklearn_version=f"{version} of skpararnn",
                ),
                stacklevel=2,
            )
        super().__setstate__(state)


# ------------------------------------------------------------------ choices in tables

RULES = {
    "output": rule.choice("last", "mean", "last+mean"),
    "optimizer": rule.any_of(
        rule.choice("adam", "adamw", "nadam", "radam", "rmsprop", "adagrad", "sgd"),
        rule.instance(type, "a torch.optim.Optimizer class"),
    ),
    "bidirectional": rule.boolean(),
    "lr": rule.real(0, 1e30, low_open=True),
    "weight_decay": rule.real(0),
    "lr_schedule": rule.any_of(
        rule.none(), rule.choice("plateau", "cosine", "step"), rule.a_callable()
    ),
    "grad_clip": rule.any_of(rule.none(), rule.real(0, low_open=True)),
    "max_epochs": rule.integer(1),
    "batch_size": rule.any_of(rule.integer(1), rule.choice("full")),
    "shuffle": rule.boolean(),
    "early_stopping": rule.boolean(),
    "validation_fraction": rule.real(0, 1, low_open=True, high_open=True),
    "validation_split": rule.choice("random", "last"),
    "n_iter_no_change": rule.integer(1),
    "tol": rule.real(0),
    "warm_start": rule.boolean(),
    "n_channels": rule.integer(1),
    "columns_order": rule.choice(*COLUMNS_ORDERS),
    "columns_layout": rule.choice(*COLUMNS_LAYOUTS),
    "device": rule.instance(str, "a string such as 'auto', 'cpu' or 'cuda'"),
    "dtype": rule.choice("float32", "float64"),
    "amp": rule.boolean(),
    "compile": rule.boolean(),
    "callbacks": rule.any_of(rule.none(), rule.instance((list, tuple), "a list")),
    "net_params": rule.any_of(rule.none(), rule.instance(dict, "a dict")),
    "verbose": rule.any_of(rule.integer(0), rule.boolean()),
    "class_weight": rule.any_of(
        rule.none(), rule.choice("balanced"), rule.instance(dict, "a dict")
    ),
    "normalize_y": rule.boolean(),
}

# parameters that say how X is read
READING = ("dtype", "n_channels", "columns_order", "columns_layout")

# keys of net_params that go to the module; the others go to skorch
MODULE_OPTIONS = ("forget_bias", "reset_after", "d_agg", "d_ff")


# ----------------------------------------------------------------------------- helpers


def _can_be_pickled(value):
    try:
        pickle.dumps(value)
    except Exception:  # pickle raises whatever the object's own code raises
        return False
    return True
