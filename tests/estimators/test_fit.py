"""Training: what the parameters do, what a fit leaves behind, how it may end."""

import logging
import pickle
import warnings

import numpy as np
import pytest
import torch
from cases import (
    CLASSIFIERS,
    ESTIMATORS,
    REGRESSORS,
    answers,
    ragged,
    sequences,
    small,
    target,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score

from skpararnn import LRUClassifier, ParaRNNClassifier, ParaRNNRegressor

each_estimator = pytest.mark.parametrize("cls", ESTIMATORS)


@pytest.fixture
def X():
    return sequences(n=40)


# --------------------------------------------------------------------- what is recorded


@each_estimator
def test_attributes_of_a_plain_fit(cls, X):
    model = small(cls, max_epochs=5).fit(X, target(cls, X))
    assert model.n_iter_ == 5
    assert [e["epoch"] for e in model.history_] == [1, 2, 3, 4, 5]
    assert model.loss_curve_ == [e["train_loss"] for e in model.history_]
    assert model.validation_curve_ is None
    assert model.validation_scores_ is None
    assert model.best_loss_ == min(model.loss_curve_)
    assert model.loss_curve_[model.best_epoch_ - 1] == model.best_loss_
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert model.n_features_in_ == model.n_channels_in_ == 2
    assert model.hidden_size_ == 6
    assert model.device_ == "cpu"
    (blocks,) = model.recurrent_blocks_
    assert blocks.shape[1:] == (3, 2, 2)
    assert model.n_parameters_ == sum(
        w.numel() for w in model.net_.module_.parameters()
    )


@pytest.mark.parametrize(("cell", "R"), [("rnn", 1), ("lstm", 4), ("gru", 3)])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_blocks_of_each_layer(X, cell, R, bidirectional):
    model = small(
        ParaRNNClassifier, cell=cell, n_layers=2, bidirectional=bidirectional
    ).fit(X, target(ParaRNNClassifier, X))
    shapes = [b.shape for b in model.recurrent_blocks_]
    assert shapes == [(R, 3, 2, 2)] * (4 if bidirectional else 2)
    assert model.hidden_states(X).shape == (40, 6, 12 if bidirectional else 6)


def test_unequal_block_sizes(X):
    y = target(ParaRNNClassifier, X)
    model = small(ParaRNNClassifier, d_s=(1, 3, 2)).fit(X, y)
    (blocks,) = model.recurrent_blocks_
    assert [b.shape for b in blocks] == [(1, 1, 1), (1, 3, 3), (1, 2, 2)]
    assert model.hidden_size_ == 6
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


# --------------------------------------------------------------- optimiser and schedule


@pytest.mark.parametrize(
    "optimizer",
    ["adam", "adamw", "nadam", "radam", "rmsprop", "adagrad", "sgd", torch.optim.Adam],
)
def test_optimizers_by_name_and_class(X, optimizer):
    model = small(ParaRNNRegressor, optimizer=optimizer, max_epochs=10)
    model.fit(X, target(ParaRNNRegressor, X))
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_optimizers_that_try_several_steps(X):
    model = small(
        ParaRNNRegressor,
        optimizer=torch.optim.LBFGS,
        lr=0.5,
        grad_clip=None,
        batch_size="full",
        net_params={"optimizer__max_iter": 5},
    ).fit(X, target(ParaRNNRegressor, X))
    assert model.loss_curve_[-1] < 0.5 * model.loss_curve_[0]


@pytest.mark.parametrize("optimizer", ["adam", "adamw", torch.optim.AdamW])
def test_adam_takes_its_step_in_one_call_unless_told_otherwise(X, optimizer):
    def fused(**options):
        model = small(ParaRNNRegressor, optimizer=optimizer, net_params=options)
        (group,) = model.fit(X, X[:, 0, 0]).net_.optimizer_.param_groups
        return bool(group["fused"])

    assert fused(optimizer__betas=(0.8, 0.9))
    for option in ("fused", "foreach", "differentiable"):
        assert not fused(**{f"optimizer__{option}": False})


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cls", [ParaRNNRegressor, ParaRNNClassifier])
def test_training_is_what_a_bare_loop_does(X, cls, weighted):
    y = target(cls, X)
    weight = np.linspace(0.5, 2, 40) if weighted else None
    model = small(cls, dtype="float64", shuffle=False, grad_clip=0.5, max_epochs=3)
    start = small(cls, dtype="float64", max_epochs=1, lr=1e-30).fit(X, y)
    module = start.net_.module_
    net = model.fit(X, y, sample_weight=weight).net_

    if cls is ParaRNNRegressor:
        goal = torch.tensor((y - model.target_mean_) / model.target_scale_)[:, None]
    else:
        goal = torch.tensor(y == model.classes_[1]).long()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01, foreach=False)
    w = torch.ones(40) if weight is None else torch.tensor(weight)
    for _ in range(3):
        for rows in torch.arange(40).split(8):
            optimizer.zero_grad()
            output = module(torch.tensor(X)[rows])
            if cls is ParaRNNRegressor:
                losses = (output - goal[rows]).square().squeeze(1)
            else:
                losses = -output.log_softmax(1)[torch.arange(8), goal[rows]]
            ((w[rows] * losses).sum() / w[rows].sum()).backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5)
            optimizer.step()
    for ours, theirs in zip(net.module_.parameters(), module.parameters(), strict=True):
        assert_allclose(ours.detach(), theirs.detach(), rtol=1e-5, atol=1e-7)


def test_optimizer_options_and_weight_decay_arrive(X):
    model = small(
        ParaRNNRegressor, weight_decay=0.1, net_params={"optimizer__betas": (0.5, 0.6)}
    ).fit(X, target(ParaRNNRegressor, X))
    (group,) = model.net_.optimizer_.param_groups
    assert group["weight_decay"] == 0.1
    assert group["betas"] == (0.5, 0.6)
    assert group["lr"] == 0.01


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (None, [1, 1, 1, 1, 1, 1]),
        ("step", [1, 1, 0.3, 0.3, 0.09, 0.09]),
        ("cosine", [(1 + np.cos(np.pi * t / 6)) / 2 for t in range(6)]),
        (lambda epoch: 1 / (1 + epoch), [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6]),
    ],
)
def test_lr_schedules(X, schedule, expected):
    seen = []

    class Watch(skorch_callback()):
        def on_epoch_begin(self, net, **kwargs):
            seen.append(net.optimizer_.param_groups[0]["lr"])

    small(
        ParaRNNRegressor,
        lr_schedule=schedule,
        max_epochs=6,
        lr=0.5,
        callbacks=[Watch()],
    ).fit(X, target(ParaRNNRegressor, X))
    assert_allclose(seen, 0.5 * np.array(expected))


def test_plateau_halves_a_learning_rate_that_leads_nowhere(X):
    model = small(ParaRNNRegressor, lr_schedule="plateau", max_epochs=40, lr=0.3)
    model.fit(X, np.random.default_rng(1).normal(size=40))
    assert model.net_.optimizer_.param_groups[0]["lr"] < 0.3


def test_gradient_clipping_bounds_the_step(X):
    y = 100 * target(ParaRNNRegressor, X)
    moved = {}
    for clip in (None, 1e-3):
        model = small(
            ParaRNNRegressor,
            optimizer="sgd",
            lr=0.1,
            grad_clip=clip,
            max_epochs=1,
            batch_size="full",
        )
        start = small(ParaRNNRegressor, optimizer="sgd", lr=1e-30, max_epochs=1)
        before, after = start.fit(X, y)._weights, model.fit(X, y)._weights
        moved[clip] = sum(np.square(after[k] - before[k]).sum() for k in after) ** 0.5
    assert_allclose(moved[1e-3], 0.1 * 1e-3, rtol=1e-2)
    assert moved[None] > 10 * moved[1e-3]


def test_shuffle_off_keeps_the_order(X):
    rows = []

    class Watch(skorch_callback()):
        def on_batch_begin(self, net, batch, training, **kwargs):
            rows.append(batch[0]["x"][:, 0, 0].numpy())

    small(ParaRNNRegressor, shuffle=False, max_epochs=2, callbacks=[Watch()]).fit(
        X, target(ParaRNNRegressor, X)
    )
    assert_allclose(np.concatenate(rows), np.tile(X[:, 0, 0], 2), rtol=1e-6)


def test_init_and_net_params_reach_the_cells(X):
    y = target(ParaRNNClassifier, X)
    frozen = {"max_epochs": 1, "lr": 1e-30}
    model = small(ParaRNNClassifier, init="identity", **frozen).fit(X, y)
    assert_allclose(
        model.recurrent_blocks_[0], np.tile(np.eye(2), (1, 3, 1, 1)), atol=1e-20
    )
    lstm = small(
        ParaRNNClassifier, cell="lstm", net_params={"forget_bias": 1.0}, **frozen
    ).fit(X, y)
    plain = small(ParaRNNClassifier, cell="lstm", **frozen).fit(X, y)
    (forget,) = [w[1] for w in lstm._weights.values() if w.shape == (4, 6)]
    assert_allclose(forget, 1)
    assert not np.allclose(plain.predict_proba(X), lstm.predict_proba(X))
    small(ParaRNNClassifier, cell="gru", init="chrono").fit(X, y)
    with pytest.raises(ValueError, match="chrono"):
        small(ParaRNNClassifier, init="chrono").fit(X, y)
    with pytest.raises(ValueError, match="forget_bias"):
        small(ParaRNNClassifier, net_params={"forget_bias": 1.0}).fit(X, y)


@pytest.mark.parametrize("optimizer", [int, dict, torch.nn.Linear])
def test_what_is_no_optimizer_is_named(X, optimizer):
    with pytest.raises(ValueError, match=r"optimizer must be .*got"):
        small(ParaRNNRegressor, optimizer=optimizer).fit(X, X[:, 0, 0])


@pytest.mark.parametrize("returned", [None, "half", np.nan])
def test_what_a_schedule_returns_is_checked(X, returned):
    model = small(ParaRNNRegressor, lr_schedule=lambda epoch: returned)
    with pytest.raises(ValueError, match=r"lr_schedule must return .* for epoch 0"):
        model.fit(X, X[:, 0, 0])


@pytest.mark.parametrize(
    "options",
    [
        {"module": None},
        {"lr": 1.0},
        {"callbacks": []},
        {"module__K": 4},
        {"optimizer__lr": 1.0},
    ],
)
def test_net_params_cannot_take_over_parameters(X, options):
    with pytest.raises(ValueError, match="net_params must not set"):
        small(ParaRNNRegressor, net_params=options).fit(X, X[:, 0, 0])


def test_unknown_net_params_are_named(X):
    with pytest.raises(ValueError, match="net_params has the unknown key 'flavour'"):
        small(ParaRNNRegressor, net_params={"flavour": 1}).fit(X, X[:, 0, 0])


# ------------------------------------------------------- validation and early stopping


@each_estimator
def test_early_stopping_restores_the_best_epoch(cls, X):
    rng = np.random.default_rng(0)
    y = rng.permutation(target(cls, X))  # nothing to learn: it overfits at once
    X_val, y_val = sequences(n=30, seed=5), rng.permutation(target(cls, X))[:30]
    model = small(
        cls, early_stopping=True, n_iter_no_change=5, lr=0.1, K=16, max_epochs=200
    ).fit(X, y, X_val=X_val, y_val=y_val)
    assert model.n_iter_ < 200
    assert model.n_iter_ == len(model.validation_curve_)
    assert model.best_loss_ == min(model.validation_curve_)
    assert model.best_epoch_ == 1 + np.argmin(model.validation_curve_)
    score = model.validation_scores_[model.best_epoch_ - 1]
    assert_allclose(model.score(X_val, y_val), score, rtol=1e-5)


def test_best_weights_are_restored_when_the_epochs_run_out(X):
    y = np.random.default_rng(0).normal(size=40)
    X_val, y_val = sequences(n=30, seed=5), np.random.default_rng(1).normal(size=30)
    model = small(
        ParaRNNRegressor,
        early_stopping=True,
        n_iter_no_change=100,
        lr=0.1,
        max_epochs=20,
    ).fit(X, y, X_val=X_val, y_val=y_val)
    assert model.n_iter_ == 20
    assert model.best_epoch_ < 20
    assert_allclose(
        model.score(X_val, y_val),
        model.validation_scores_[model.best_epoch_ - 1],
        atol=1e-5,
    )


def test_validation_data_alone_are_only_watched(X):
    y = target(ParaRNNRegressor, X)
    plain = small(ParaRNNRegressor, max_epochs=8).fit(X, y)
    watched = small(ParaRNNRegressor, max_epochs=8).fit(X, y, X_val=X[:9], y_val=y[:9])
    assert_array_equal(watched.predict(X), plain.predict(X))
    assert len(watched.validation_curve_) == len(watched.validation_scores_) == 8
    assert_allclose(
        watched.validation_scores_[-1], watched.score(X[:9], y[:9]), rtol=1e-5
    )


@pytest.mark.parametrize("split", ["random", "last"])
def test_validation_split(X, split):
    rows = {"train": set(), "valid": set()}

    class Watch(skorch_callback()):
        def on_batch_begin(self, net, batch, training, **kwargs):
            where = rows["train" if training else "valid"]
            where.update(batch[0]["x"][:, 0, 0].numpy().tolist())

    small(
        ParaRNNRegressor,
        early_stopping=True,
        validation_split=split,
        validation_fraction=0.25,
        callbacks=[Watch()],
    ).fit(X, target(ParaRNNRegressor, X))
    first = X[:, 0, 0].astype(np.float32).tolist()
    assert len(rows["valid"]) == 10
    assert not rows["train"] & rows["valid"]
    assert rows["train"] | rows["valid"] == set(first)
    assert (rows["valid"] == set(first[-10:])) == (split == "last")


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_random_validation_split_is_stratified(cls, X):
    y = np.repeat([0, 1], [32, 8])
    seen = []

    class Watch(skorch_callback()):
        def on_batch_begin(self, net, batch, training, **kwargs):
            if not training:
                seen.extend(batch[1].tolist())

    small(
        cls,
        early_stopping=True,
        validation_fraction=0.25,
        max_epochs=1,
        callbacks=[Watch()],
    ).fit(X, y)
    assert sorted(seen) == [0] * 8 + [1] * 2


def test_a_rare_class_does_not_stop_early_stopping(X):
    y = np.array(["common"] * 39 + ["rare"])
    small(ParaRNNClassifier, early_stopping=True).fit(X, y)


def test_too_few_samples_to_split_are_named():
    X = sequences(n=1)
    with pytest.raises(ValueError, match="got 1 samples"):
        small(ParaRNNRegressor, early_stopping=True).fit(X, [1.0])


def test_validation_data_have_their_own_name_in_errors(X):
    y = X[:, 0, 0]
    bad = X.copy()
    bad[1, 2, 0] = np.nan
    with pytest.raises(ValueError, match="X_val contains NaN in sample 1, step 2"):
        small(ParaRNNRegressor).fit(X, y, X_val=bad, y_val=y)
    with pytest.raises(ValueError, match="X_val has 1 features"):
        small(ParaRNNRegressor).fit(X, y, X_val=X[:, :, :1], y_val=y)
    with pytest.raises(ValueError, match="y_val contains NaN"):
        small(ParaRNNRegressor).fit(X, y, X_val=X, y_val=bad[:, 2, 0])
    with pytest.raises(ValueError, match="y_val has the labels"):
        small(ParaRNNClassifier).fit(X, y > 0, X_val=X, y_val=np.arange(40) % 3)


def test_half_of_the_validation_data_is_refused(X):
    y = X[:, 0, 0]
    with pytest.raises(ValueError, match="X_val and y_val go together"):
        small(ParaRNNRegressor).fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="expecting 2 features"):
        small(ParaRNNRegressor).fit(X, y, X_val=X[:, :, :1], y_val=y)
    with pytest.raises(ValueError, match="known classes"):
        small(ParaRNNClassifier).fit(X, y > 0, X_val=X, y_val=np.arange(40) % 3)


# --------------------------------------------------------------- going on with training


@each_estimator
def test_warm_start_goes_on(cls, X):
    y = target(cls, X)
    model = small(cls, warm_start=True, max_epochs=4).fit(X, y)
    first = model.loss_curve_
    model.fit(X, y)
    assert model.n_iter_ == 8
    assert model.loss_curve_[:4] == first
    assert model.loss_curve_[4] < first[0]
    assert [e["epoch"] for e in model.history_] == list(range(1, 9))
    cold = small(cls, max_epochs=4).fit(X, y).fit(X, y)
    assert cold.n_iter_ == 4


def test_warm_start_keeps_the_state_of_the_optimizer(X):
    y = target(ParaRNNRegressor, X)
    model = small(ParaRNNRegressor, warm_start=True).fit(X, y)

    def steps():
        return {int(s["step"]) for s in model.net_.optimizer_.state.values()}

    assert steps() == {3 * 5}
    model.set_params(lr=0.001).fit(X, y)
    assert steps() == {6 * 5}
    assert model.net_.optimizer_.param_groups[0]["lr"] == 0.001
    again = pickle.loads(pickle.dumps(model)).fit(X, y)
    assert again.n_iter_ == 9


def test_a_plain_fit_lets_go_of_optimizer_and_data(X):
    model = small(ParaRNNRegressor, early_stopping=True).fit(X, X[:, 0, 0])
    assert not model.net_.optimizer_.state
    assert model.net_.train_split is None
    assert all(w.grad is None for w in model.net_.module_.parameters())


@each_estimator
def test_partial_fit_takes_one_epoch(cls, X):
    y = target(cls, X)
    model = small(cls, early_stopping=True)  # which does not apply
    for epoch in range(1, 4):
        assert model.partial_fit(X, y) is model
        assert model.n_iter_ == epoch
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    order = [model.loss_curve_[1], model.loss_curve_[2]]
    assert order[0] != order[1]


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_partial_fit_with_classes_to_come(cls, X):
    model = small(cls).partial_fit(X, ["a"] * 40, classes=["b", "a", "c"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    model.partial_fit(X, ["c", "b"] * 20)
    assert model.predict_proba(X).shape == (40, 3)
    with pytest.raises(ValueError, match=r"labels \['d'\]"):
        model.partial_fit(X, ["d"] * 40)
    with pytest.raises(ValueError, match="balanced"):
        small(cls, class_weight="balanced").partial_fit(X, ["c", "b"] * 20)


@pytest.mark.parametrize("cls", REGRESSORS)
def test_partial_fit_keeps_the_scale_of_the_target(cls, X):
    y = target(cls, X)
    model = small(cls).partial_fit(X, 5 + 3 * y)
    mean = model.target_mean_
    model.partial_fit(X, 100 * y)
    assert_array_equal(model.target_mean_, mean)


@pytest.mark.parametrize(
    "change",
    [{"K": 5}, {"d_s": 1}, {"cell": "gru"}, {"output": "mean"}, {"dtype": "float64"}],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_going_on_cannot_change_the_net(X, change, method):
    y = target(ParaRNNClassifier, X)
    model = small(ParaRNNClassifier, warm_start=True).fit(X, y)
    before = model.predict_proba(X)
    model.set_params(**change)
    (name,) = change
    with pytest.raises(ValueError, match=f"{name} has changed since the first fit"):
        getattr(model, method)(X, y)
    assert_array_equal(model.predict_proba(X), before)
    model.set_params(warm_start=False).fit(X, y)
    model.set_params(warm_start=True, lr=0.1, backend="reference").fit(X, y)
    assert model.n_iter_ == 6


def test_going_on_validates_on_the_same_samples(X):
    seen = []

    class Watch(skorch_callback()):
        def on_batch_begin(self, net, batch, training, **kwargs):
            if not training:
                seen[-1].update(batch[0]["x"][:, 0, 0].tolist())

    model = small(
        ParaRNNRegressor, warm_start=True, early_stopping=True, callbacks=[Watch()]
    )
    for _ in range(3):
        seen.append(set())
        model.fit(X, target(ParaRNNRegressor, X))
    assert len(seen[0]) == 4
    assert seen[0] == seen[1] == seen[2]


def test_set_params_after_fit_does_not_break_predict(X):
    y = target(ParaRNNClassifier, X)
    model = small(ParaRNNClassifier).fit(X, y)
    expected = model.predict_proba(X)
    model.set_params(K=50, d_s=3, cell="lstm", dtype="float64", n_channels=3)
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(loaded.predict_proba(X), expected)


# --------------------------------------------------------------------- weights, targets


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_class_weights_are_sample_weights(cls, X):
    y = np.repeat(["rare", "common"], [8, 32])
    by_hand = np.where(y == "rare", 40 / (2 * 8), 40 / (2 * 32))
    expected = small(cls).fit(X, y, sample_weight=by_hand).predict_proba(X)
    balanced = small(cls, class_weight="balanced").fit(X, y)
    assert_array_equal(balanced.predict_proba(X), expected)
    named = {"rare": 40 / (2 * 8), "common": 40 / (2 * 32)}
    assert_array_equal(
        small(cls, class_weight=named).fit(X, y).predict_proba(X), expected
    )


def test_class_weight_zero_leaves_a_class_out_but_known(X):
    y = np.arange(40) % 3
    model = small(ParaRNNClassifier, class_weight={0: 1, 1: 1, 2: 0}).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    two = small(ParaRNNClassifier).partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])
    assert_allclose(model.loss_curve_[0], two.loss_curve_[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.full(40, -1.0), "sample 0 has -1"),
        (np.full(40, np.nan), "sample 0 has nan"),
        (np.zeros(40), "zero for every sample"),
        (np.ones(39), r"shape \(39,\), expected \(40,\)"),
    ],
)
def test_bad_weights_are_refused(X, weight, words):
    with pytest.raises(ValueError, match=words):
        small(ParaRNNRegressor).fit(X, X[:, 0, 0], sample_weight=weight)


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_class_weights_need_not_name_every_class(cls, X):
    y = np.array(["a", "b", "c", "d"] * 10)
    expected = np.where(y == "a", 2.0, 1.0)
    weighted = small(cls, class_weight={"a": 2}).fit(X, y)
    by_hand = small(cls).fit(X, y, sample_weight=expected)
    assert_array_equal(weighted.predict_proba(X), by_hand.predict_proba(X))
    model = small(cls, class_weight={"a": 2})
    model.partial_fit(X[:1], ["b"], classes=["a", "b", "c"])
    model.partial_fit(X[:2], ["b", "c"])
    assert model.n_iter_ == 2


@pytest.mark.parametrize("weight", [-1, np.nan, np.inf, None, "much"])
def test_bad_class_weights_are_named(X, weight):
    model = small(ParaRNNClassifier, class_weight={"a": weight})
    with pytest.raises(ValueError, match=r"class_weight must be .* for 'a'"):
        model.fit(X, np.array(["a", "b"] * 20))
    with pytest.raises(ValueError, match="class_weight has the label 'z'"):
        model.set_params(class_weight={"z": 1}).fit(X, np.array(["a", "b"] * 20))


@each_estimator
def test_masked_and_dated_targets_and_weights_are_refused(cls, X):
    y = target(cls, X)
    masked = np.ma.array(np.ones(40), mask=np.arange(40) < 3)
    dates = np.arange(40).astype("M8[D]")
    for words, bad in [("masked", masked), ("dates", dates), ("dates", dates - dates)]:
        with pytest.raises(TypeError, match=f"y .*{words}"):
            small(cls).fit(X, bad)
        with pytest.raises(TypeError, match=f"sample_weight .*{words}"):
            small(cls).fit(X, y, sample_weight=bad)
    with pytest.raises(ValueError, match="Complex data not supported: sample_weight"):
        small(cls).fit(X, y, sample_weight=np.ones(40) * 1j)
    with pytest.raises(ValueError, match="sample_weight must hold numbers"):
        small(cls).fit(X, y, sample_weight=["much"] * 40)


@pytest.mark.parametrize("labels", [["a", None], ["a", 1], [None, None]])
def test_labels_that_cannot_be_sorted_are_refused(X, labels):
    with pytest.raises(ValueError, match=r"labels in y|label type"):
        small(ParaRNNClassifier).fit(X, np.array(labels * 20, dtype=object))


def test_the_target_of_an_absent_sample_does_not_matter(X):
    y = target(ParaRNNRegressor, X)
    weight = np.where(np.arange(40) == 3, 0.0, 1.0)
    without = small(ParaRNNRegressor).fit(X[weight > 0], y[weight > 0])
    y[3] = 1e300
    model = small(ParaRNNRegressor).fit(X, y, sample_weight=weight)
    assert model.loss_curve_ == without.loss_curve_


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-9, 1.0, 1e9, 1e200, 1e300])
@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_the_scale_of_the_target_does_not_matter(X, scale, shift):
    y = target(ParaRNNRegressor, X)
    model = small(ParaRNNRegressor, max_epochs=60, lr=0.02)
    expected = model.fit(X, y).score(X, y)
    assert expected > 0.9
    moved = scale * y + (shift if scale == 1 else 0)
    found = (model.fit(X, moved).predict(X) - (moved - scale * y)) / scale
    assert abs(r2_score(y, found) - expected) < 0.05


def test_normalize_y_off(X):
    y = 3 + target(ParaRNNRegressor, X)
    model = small(ParaRNNRegressor, normalize_y=False).fit(X, y)
    assert_array_equal(model.target_mean_, [0])
    assert_array_equal(model.target_scale_, [1])
    with pytest.raises(ValueError, match="too large for float32 in sample 7"):
        model.fit(X, np.where(np.arange(40) == 7, 1e300, y))


def test_a_constant_target_is_predicted(X):
    model = small(ParaRNNRegressor, max_epochs=20).fit(X, np.full(40, 7.0))
    assert_allclose(model.predict(X), 7, atol=0.5)


# -------------------------------------------------------------------- ends and troubles


def diverging(**changes):
    return small(
        ParaRNNRegressor,
        activation="relu",
        optimizer="sgd",
        grad_clip=None,
        normalize_y=False,
        **changes,
    )


def test_divergence_in_the_first_epoch_is_an_error(X):
    model = diverging(lr=1e20)
    with pytest.raises(ValueError, match=r"epoch 1.*Scale the features.*lr"):
        model.fit(X, X[:, 0, 0])
    assert not hasattr(model, "n_iter_")


def test_divergence_names_the_first_batch_that_shows_it(X):
    y = X[:, 0, 0].copy()
    y[19] = 3e38  # whose square is infinite in float32; of the third batch of eight
    model = small(ParaRNNRegressor, normalize_y=False, shuffle=False)
    with pytest.raises(ValueError, match=r"train loss of batch 2 is (inf|nan)"):
        model.fit(X, y)
    with pytest.raises(ValueError, match=r"valid loss of batch 2 is (inf|nan)"):
        model.fit(X, X[:, 0, 0], X_val=X, y_val=y)
    with pytest.raises(ValueError, match=r"\w+ is not finite after the last batch"):
        diverging(lr=1e30, batch_size="full").fit(X, 1e10 * X[:, 0, 0])


def test_divergence_later_restores_the_last_finite_weights(X):
    def explode(epoch):
        return 1.0 if epoch < 3 else 1e30

    y = X[:, 0, 0]
    model = diverging(lr=1e-3, lr_schedule=explode, max_epochs=10)
    with pytest.warns(ConvergenceWarning, match=r"epoch 4.*end of epoch 3"):
        model.fit(X, y)
    assert model.n_iter_ == 3
    assert np.isfinite(model.predict(X)).all()
    three = diverging(lr=1e-3, max_epochs=3).fit(X, y)
    assert_array_equal(model.predict(X), three.predict(X))


def test_divergence_in_partial_fit_keeps_the_model(X):
    y = X[:, 0, 0]
    model = diverging(lr=1e-3).partial_fit(X, y)
    before = model.predict(X)
    model.set_params(lr=1e30)
    with pytest.raises(ValueError, match="diverged"):
        model.partial_fit(X, y)
    assert_array_equal(model.predict(X), before)
    assert model.n_iter_ == 1


@each_estimator
def test_states_that_overflow_are_named(cls, X):
    unbounded = {"activation": "identity", "init": "identity"}
    if cls in (ParaRNNClassifier, ParaRNNRegressor):
        model = small(cls, **unbounded).fit(X, target(cls, X))
        far = [X[0], np.full((5, 2), 3e38), X[1]]
        for method in {"predict", "predict_proba", "hidden_states"} & set(dir(cls)):
            with pytest.raises(ValueError, match="overflow for sample 1"):
                getattr(model, method)(far)


@each_estimator
def test_silent_by_default(cls, X, capfd):
    small(cls).fit(X, target(cls, X)).predict(X)
    assert capfd.readouterr() == ("", "")


def test_verbose_shows_a_progress_bar_on_stderr(X, capfd):
    small(ParaRNNRegressor, verbose=1, max_epochs=4).fit(X, X[:, 0, 0])
    out, err = capfd.readouterr()
    assert out == ""
    assert "4/4" in err
    assert "train_loss" in err


def test_epochs_are_logged(X, caplog):
    with caplog.at_level(logging.DEBUG, logger="skpararnn"):
        small(ParaRNNRegressor).fit(X, X[:, 0, 0])
    assert [r.message.split(":")[0] for r in caplog.records] == [
        "epoch 1",
        "epoch 2",
        "epoch 3",
    ]


def test_threads_are_left_alone(X):
    before = torch.get_num_threads()
    small(ParaRNNRegressor).fit(X, X[:, 0, 0]).predict(X)
    assert torch.get_num_threads() == before


def test_scores_are_scikit_learns(X):
    weight = np.linspace(0.1, 1, 40)
    for cls, metric in [(LRUClassifier, accuracy_score), (ParaRNNRegressor, r2_score)]:
        y = target(cls, X)
        model = small(cls).fit(X, y)
        expected = metric(y, model.predict(X), sample_weight=weight)
        assert model.score(X, y, sample_weight=weight) == expected


def test_wide_transposed_input_is_pointed_out():
    X = np.random.default_rng(0).normal(size=(10, 100, 5)).transpose(0, 2, 1)
    with pytest.warns(UserWarning, match=r"5 time steps of 100 features.*transpose"):
        model = small(ParaRNNRegressor).fit(X, X[:, 0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)


def test_ragged_data_are_never_padded_as_a_whole(X):
    X = [*ragged(X), np.zeros((2000, 2))]
    seen = []

    class Watch(skorch_callback()):
        def on_batch_begin(self, net, batch, training, **kwargs):
            seen.append(batch[0]["x"].shape[1])

    model = small(ParaRNNRegressor, max_epochs=1, callbacks=[Watch()])
    model.fit(X, np.arange(41.0))
    assert max(seen) == 2000
    assert sum(T > 6 for T in seen) == 1
    assert answers(model, X).shape == (41,)


def skorch_callback():
    from skorch.callbacks import Callback

    return Callback
