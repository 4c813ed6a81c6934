"""Training on a card, on one that is made of the CPU: see `fake_card`."""

import gc
import pickle
import pickletools
import threading
import weakref

import joblib
import numpy as np
import pytest
import torch
from cases import CELLS, ESTIMATORS, answers, ragged, sequences, small, target
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback, EpochScoring, GradientNormClipping

from skpararnn import LRUClassifier, ParaRNNClassifier, ParaRNNRegressor
from skpararnn.estimators import _capture, _data, _device, _training
from skpararnn.estimators._data import BatchIterator, SequenceDataset, place
from skpararnn.nets import RecurrentNet
from skpararnn.utils._sequences import check_sequences

X = sequences(n=43)  # batches of 8, and a last one of 3
Y = target(ParaRNNRegressor, X)

# Clipping and the rate of a captured step are computed in another order, in float32.
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture
def unread_lengths(monkeypatch):
    """Lengths on the card whose range the ops do not check: that would be a wait."""
    from skpararnn.ops import _checks

    monkeypatch.setattr(_checks, "check_lengths_fit", lambda lengths, T: None)


def fit(cls=ParaRNNRegressor, data=X, device="cuda", *, y=None, **options):
    weight = options.pop("sample_weight", None)
    y = target(cls, data) if y is None else y
    return small(cls, device=device, **options).fit(data, y, sample_weight=weight)


def fallback(**options):
    return fit(**options).net_.capture_fallback_


def assert_same_model(one, other, data=X):
    assert_allclose(one.loss_curve_, other.loss_curve_, **ROUNDING)
    assert_allclose(answers(one, data), answers(other, data), **ROUNDING)


# ----------------------------------------------------------------------- where data lie


def dataset(lengths, weight=None):
    values = np.random.default_rng(0).normal(size=(max(lengths), 3)).astype(np.float32)
    data = [i + values[:length] for i, length in enumerate(lengths)]
    return SequenceDataset(check_sequences(data), np.arange(len(lengths)), weight)


LENGTHS = [
    np.full(40, 7),
    np.arange(40) % 11 + 1,
    np.where(np.arange(40) < 30, 5, 9),
]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("rows", [slice(None), slice(3, 29)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["ResidentDataset", "SentDataset"])
def test_batches_are_those_of_the_cpu(card, lengths, rows, weighted, kind):
    weight = np.linspace(0.5, 2, 40) if weighted else None
    data = dataset(lengths, weight).take(np.arange(40)[rows])
    card.free = 2**30 if kind == "ResidentDataset" else 0
    (on_card,) = place([data], "cuda")
    assert type(on_card).__name__ == kind
    both = [
        BatchIterator(d, 6, torch.Generator().manual_seed(0)) for d in (data, on_card)
    ]
    for expected, batch in zip(*both, strict=True):
        assert_batches_equal(batch, expected)
    assert_batches_equal(on_card[5], data[5])
    assert card.n_pinned > 0


def assert_batches_equal(batch, expected):
    """Equal but for more padding."""
    (inputs, y), (expected_inputs, expected_y) = batch, expected
    assert inputs.keys() == expected_inputs.keys()
    assert_array_equal(y, expected_y)
    T = expected_inputs["x"].shape[1]
    assert_array_equal(inputs["x"][:, :T], expected_inputs["x"])
    assert not inputs["x"][:, T:].any()
    for name in inputs.keys() - {"x"}:
        assert_array_equal(inputs[name], expected_inputs[name])


@pytest.mark.parametrize("missing", [0, 1])
def test_data_may_take_a_quarter_of_the_free_memory(card, missing):
    data = dataset(np.full(40, 7))
    n_bytes = data.sequences.values.nbytes + 2 * 40 * 8  # targets and row numbers
    card.free = 4 * n_bytes - missing
    (on_card,) = place([data], "cuda")
    assert isinstance(on_card, _data.SentDataset if missing else _data.ResidentDataset)


def test_training_and_validation_data_count_together_and_lie_there_once(card):
    data = dataset(np.full(40, 7))
    train, validation = data.take(np.arange(30)), data.take(np.arange(30, 40))
    card.free = 5 * data.sequences.values.nbytes
    train, validation = place([train, validation], "cuda")
    assert train._values is validation._values
    other = dataset(np.full(40, 7))
    placed = place([data, other], "cuda")
    assert [type(d) for d in placed] == [_data.SentDataset] * 2
    assert place([data, None], "cuda")[1] is None


def test_data_stay_as_they_are_on_the_cpu():
    data = [dataset(np.full(40, 7)), None]
    assert place(data, "cpu") is data


def test_the_host_does_not_wait_for_the_card_to_make_a_batch(card):
    from fake_card import Tape

    (on_card,) = place([dataset(np.arange(40) + 1)], "cuda")
    with Tape([]):  # an error where a number is read from the card
        assert len(list(BatchIterator(on_card, 8))) == 5


@pytest.mark.parametrize("free", [0, 2**30])
def test_batches_of_unequal_lengths_have_few_shapes(card, free):
    card.free = free
    lengths = np.random.default_rng(0).integers(1, 200, 640)
    (on_card,) = place([dataset(lengths)], "cuda")
    steps = [
        inputs["x"].shape[1]
        for _ in range(10)
        for inputs, _ in BatchIterator(on_card, 16, torch.Generator())
    ]
    assert len(set(steps)) < 16
    assert max(steps) == lengths.max()


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("container", [np.asarray, ragged])
@pytest.mark.parametrize("free", [0, 2**30])
def test_a_fit_does_not_depend_on_where_data_lie(card, cls, container, free):
    data = container(X)
    expected = fit(cls, data, device="cpu", early_stopping=True)
    card.free = free
    assert_same_model(fit(cls, data, early_stopping=True), expected, data)


# ----------------------------------------------------------------------- captured steps

TRAININGS = [
    {},
    {"lr_schedule": "cosine"},
    {"lr_schedule": "step", "optimizer": "adamw", "weight_decay": 0.1},
    {"lr_schedule": "plateau", "lr": 0.1, "max_epochs": 15},
    {"lr_schedule": lambda epoch: 1 / (1 + epoch)},
    {"grad_clip": None},
    {"grad_clip": 0.05},
    {"n_layers": 2, "dropout": 0.4},
    {"n_layers": 3, "dropout": 0.4, "bidirectional": True},
    {"sample_weight": np.linspace(0.1, 3, 43)},
    {"batch_size": "full", "max_epochs": 10},
    {"batch_size": 1},
    {"dtype": "float64"},
    {"d_s": (1, 2, 3), "aggregation": "ffn"},
    {"early_stopping": True, "n_iter_no_change": 2, "max_epochs": 9},
    {"backend": "reference"},
    {"net_params": {"optimizer__amsgrad": True, "optimizer__betas": (0.8, 0.9)}},
    {"callbacks": [EpochScoring(lambda net, X, y: 1.0, name="one")]},
]


@pytest.mark.parametrize("options", TRAININGS)
def test_captured_steps_train_the_same_model(card, options):
    options = {"max_epochs": 6, **options}
    model = fit(**options)
    assert model.net_.capture_fallback_ is None
    # every step after those of the warm-up, of each shape
    assert sum(graph.n_replays for graph in card.graphs) > model.n_iter_ / 2
    assert_same_model(model, fit(device="cpu", **options))


@pytest.mark.parametrize(("cls", "options"), CELLS)
@pytest.mark.parametrize("container", [np.asarray, ragged])
def test_steps_of_every_cell_are_captured(
    card, unread_lengths, cls, options, container
):
    data = container(sequences(n=64))
    options = {"max_epochs": 12, "n_layers": 2, "dropout": 0.2, **options}
    model = fit(cls, data, **options)
    assert model.net_.capture_fallback_ is None
    assert_same_model(model, fit(cls, data, device="cpu", **options), data)


def test_a_step_is_eager_until_its_shape_has_come_often(card):
    fit(max_epochs=1)  # five full batches, one of three
    (graph,) = card.graphs
    assert graph.n_replays == 5 - _capture.WARM_UP
    fit(max_epochs=_capture.WARM_UP + 1)
    assert [graph.n_replays for graph in card.graphs[1:]] == [4 * 5 - 3, 1]


def test_few_batches_are_not_worth_a_capture(card):
    assert fallback(max_epochs=1, batch_size=20) == (
        "no shape of a batch came more than 3 times"
    )
    assert card.graphs == []


def test_graphs_are_limited(card, unread_lengths, monkeypatch):
    monkeypatch.setattr(_capture, "MAX_GRAPHS", 2)
    data = ragged(sequences(n=80, T=40))
    model = fit(data=data, max_epochs=8)
    assert len(card.graphs) == 2
    assert_same_model(model, fit(data=data, max_epochs=8, device="cpu"), data)


def test_going_on_captures_anew(card):
    models = [
        small(ParaRNNRegressor, device=d, warm_start=True) for d in ("cuda", "cpu")
    ]
    for model in models:
        model.fit(X, Y).set_params(lr=0.03).fit(X, Y)
        for _ in range(3):
            model.partial_fit(X, Y)
    assert_same_model(*models)
    assert models[0].net_.capture_fallback_ is None
    steps = models[0].net_.optimizer_.state.values()
    assert {int(state["step"]) for state in steps} == {9 * 6}


def test_rates_stay_numbers_for_everybody_else(card):
    model = fit(lr_schedule="cosine")
    (group,) = model.net_.optimizer_.param_groups
    assert isinstance(group["lr"], float)
    assert group["capturable"] is False
    assert all(isinstance(e["event_lr"], float) for e in model.history_)
    assert model.history_ == pickle.loads(pickle.dumps(model.history_))


# ------------------------------------------------------------------- steps not captured


class Gradients(GradientNormClipping):
    """Reads the gradients; said to be skorch's own."""


Gradients.__module__ = "skorch.callbacks"


class OneCycle(Callback):
    """Changes an option of the optimizer in each step, as `OneCycleLR` does."""

    def on_batch_begin(self, net, batch, training, **kwargs):
        if training:
            group = net.optimizer_.param_groups[0]
            group["betas"] = (0.99 * group["betas"][0], 0.999)


OneCycle.__module__ = "skorch.callbacks"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"optimizer": "sgd"}, "a step of SGD with these options cannot be captured"),
        ({"optimizer": torch.optim.RMSprop}, "a step of RMSprop"),
        ({"net_params": {"optimizer__fused": False}}, "a step of Adam with these"),
        ({"callbacks": [("mine", Callback)]}, None),
        ({"callbacks": [("g", Gradients(0.1))]}, "a callback wants to see the gradi"),
        ({"callbacks": [OneCycle()]}, "options of the optimizer change between steps"),
    ],
)
def test_what_cannot_be_captured_is_named_and_trained_step_by_step(
    card, options, reason
):
    model = fit(**options)
    if reason is None:
        assert model.net_.capture_fallback_ is None
    else:
        assert model.net_.capture_fallback_.startswith(reason)
        assert card.graphs == []
    assert_same_model(model, fit(device="cpu", **options))


def test_callbacks_of_users_may_change_the_net_between_steps(card):
    class Widen(Callback):
        def on_epoch_begin(self, net, **kwargs):
            net.module_.dropout.p *= 0.5

    options = {"callbacks": [("widen", Widen())], "n_layers": 2, "dropout": 0.8}
    model = fit(**options)
    assert model.net_.capture_fallback_ == (
        "the callback widen may change the net between steps"
    )
    assert_same_model(model, fit(device="cpu", **options))


def test_weights_that_are_set_free_later_are_trained_from_then_on(card):
    from skorch.callbacks import Freezer, Unfreezer

    def options():
        return {
            "callbacks": [Freezer("head.*"), Unfreezer("head.*", at=4)],
            "max_epochs": 8,
        }

    model = fit(**options())
    assert len(card.graphs) >= 3  # before and after
    assert_same_model(model, fit(device="cpu", **options()))


def test_a_capture_that_fails_is_named_and_trained_step_by_step(card):
    card.refuses_graphs = "CUDA error: out of registers\nmore lines"
    model = fit()
    assert model.net_.capture_fallback_ == (
        "the step cannot be captured: CUDA error: out of registers"
    )
    assert_same_model(model, fit(device="cpu"))


def test_a_step_that_waits_for_the_card_is_named_and_trained_step_by_step(card):
    """The reference loop reads the lengths; leaving the capture is a second error."""
    data = ragged(X)
    model = fit(data=data, backend="reference", max_epochs=8)
    assert model.net_.capture_fallback_ == (
        "the step cannot be captured: operation not permitted when stream is capturing"
    )
    assert_same_model(model, fit(data=data, device="cpu", max_epochs=8), data)


def test_ctrl_c_in_a_capture_reaches_the_caller(card, monkeypatch):
    def interrupted(work, generators):
        raise KeyboardInterrupt

    monkeypatch.setattr(_device, "Graph", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit()
    with _device.alone() as is_alone:
        assert is_alone


def test_nothing_is_captured_while_another_fit_uses_a_card(card):
    with _device.training_on("cuda"):
        assert fallback() == "another fit uses a card in this process"
    assert fallback() is None


def test_a_fit_is_captured_when_the_other_one_has_ended(card):
    other = _device.training_on("cuda")
    other.__enter__()

    class EndOther(Callback):
        def on_epoch_end(self, net, **kwargs):
            if len(net.history) == 2:
                other.__exit__(None, None, None)

    EndOther.__module__ = "skorch.callbacks"
    assert fallback(callbacks=[EndOther()], max_epochs=5) is None
    assert card.graphs[0].n_replays == 3 * 5


def test_a_fit_that_starts_waits_until_another_is_captured():
    began = threading.Event()

    def start():
        with _device._counted():
            began.set()

    with _device.alone():
        thread = threading.Thread(target=start)
        thread.start()
        assert not began.wait(0.1)
    assert began.wait(10)
    thread.join()


def test_fits_in_threads_share_a_card(card):
    models = [small(ParaRNNRegressor, device="cuda", random_state=i) for i in range(6)]
    alone = [
        small(ParaRNNRegressor, device="cpu", random_state=i).fit(X, Y)
        for i in range(6)
    ]
    threads = joblib.Parallel(n_jobs=3, backend="threading")
    fitted = threads(joblib.delayed(model.fit)(X, Y) for model in models)
    for one, other in zip(fitted, alone, strict=True):
        assert_same_model(one, other)


def test_a_search_in_threads_shares_a_card(card):
    grid = {"d_s": [1, 2], "lr": [0.01, 0.03]}
    scores = {}
    for device in ("cpu", "cuda"):
        model = small(ParaRNNClassifier, device=device)
        search = GridSearchCV(model, grid, cv=3, n_jobs=2, error_score="raise")
        with parallel_config(backend="threading"):
            search.fit(X, target(ParaRNNClassifier, X))
        scores[device] = search.cv_results_["mean_test_score"]
        assert search.best_estimator_.device_ == device
    assert_array_equal(scores["cuda"], scores["cpu"])


# ------------------------------------------------------------------------------- losses


def test_a_loss_that_is_not_finite_is_found_at_the_end_of_the_epoch(card):
    y = Y.copy()
    y[19] = 3e38  # whose square is infinite in float32; of the third batch of eight
    options = {"normalize_y": False, "shuffle": False}
    with pytest.raises(ValueError, match=r"train loss of batch 2 is (inf|nan)"):
        fit(y=y, **options)
    model = small(ParaRNNRegressor, device="cuda", **options)
    with pytest.raises(ValueError, match=r"valid loss of batch 2 is (inf|nan)"):
        model.fit(X, Y, X_val=X, y_val=y)
    assert card.n_returned == 2


def test_divergence_later_restores_the_last_finite_weights(card):
    def explode(epoch):
        return 1.0 if epoch < 3 else 1e30

    def diverging(**options):
        return fit(activation="relu", grad_clip=None, normalize_y=False, **options)

    with pytest.warns(ConvergenceWarning, match=r"epoch 4.*end of epoch 3"):
        model = diverging(lr_schedule=explode, max_epochs=10)
    assert model.n_iter_ == 3
    assert_same_model(model, diverging(max_epochs=3))


def test_callbacks_at_the_end_of_a_batch_read_its_loss(card):
    class Watch(Callback):
        def on_batch_end(self, net, batch, training, loss, y_pred, **kwargs):
            prefix = "train" if training else "valid"
            record = net.history[-1]["batches"][-1]
            assert record[f"{prefix}_loss"] == loss.item()
            outputs.append((loss, y_pred))

    Watch.__module__ = "skorch.callbacks"
    outputs = []
    model = fit(callbacks=[Watch()], sample_weight=np.linspace(1, 2, 43))
    assert model.net_.capture_fallback_ is None
    batches = model.net_.history[:, "batches", :, "train_loss"]
    kept = [loss.item() for loss, _ in outputs]  # of other steps than the last one too
    assert kept == [loss for epoch in batches for loss in epoch]


# ------------------------------------------------------------------------- what is left


def test_nothing_of_the_card_is_left_after_a_fit(card, monkeypatch):
    fit()  # what torch imports in its first fit keeps that one's frames for a while
    card.n_returned, kept, stoppings = 0, [], []

    class Stopping(_training.Stopping):
        def __init__(self, *args):
            super().__init__(*args)
            stoppings.append(self)  # a callback of scikit-learn's may keep one alive

    monkeypatch.setattr(_training, "Stopping", Stopping)

    def keep(cls):
        class Kept(cls):
            def __init__(self, *args):
                super().__init__(*args)
                kept.append(weakref.ref(self))

        return Kept

    monkeypatch.setattr(_data, "ResidentDataset", keep(_data.ResidentDataset))
    monkeypatch.setattr(_capture, "_StepGraph", keep(_capture._StepGraph))
    gc.disable()  # memory must not wait for the collector
    try:
        model = small(
            ParaRNNRegressor,
            device="cuda",
            early_stopping=True,
            n_layers=2,
            dropout=0.5,
        ).fit(X, Y)
        assert len(kept) >= 3
        assert [ref() for ref in kept] == [None] * len(kept)
    finally:
        gc.enable()
    (stopping,) = stoppings
    assert stopping.last_weights is stopping.best_weights is None
    net = model.net_
    assert net.device == "cpu"
    assert net.capture is net.scaler is net.module_.dropout.generator is None
    assert not net.optimizer_.state
    assert all(weight.grad is None for weight in net.module_.parameters())
    assert card.n_returned == 1


def test_a_fit_that_fails_gives_memory_back(card):
    with pytest.raises(ValueError, match="diverged"):
        fit(activation="relu", lr=1e30, grad_clip=None, optimizer="sgd")
    assert card.n_returned == 1
    with _device.alone() as is_alone:
        assert is_alone


@pytest.mark.parametrize("warm_start", [False, True])
def test_pickles_of_a_card_hold_neither_tensors_nor_devices(card, warm_start):
    model = fit(warm_start=warm_start, dropout=0.5, n_layers=2, amp=True)
    text = pickle.dumps(model, 2)
    named = {
        argument.split()[0].split(".")[0]
        for opcode, argument, _ in pickletools.genops(text)
        if opcode.name == "GLOBAL"
    }
    assert named <= {"skpararnn", "numpy", "_codecs", "copy_reg", "__builtin__"}
    again = pickle.loads(text)
    assert again.device_ == "cuda"
    assert_array_equal(again.predict(X), model.predict(X))


# ------------------------------------------------------------------------- sixteen bits


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_mixed_precision_trains_about_the_same_model(card, cls, device, backend):
    options = {"aggregation": "ffn", "n_layers": 2, "backend": backend}
    if cls is LRUClassifier:
        options["bidirectional"], options["candidate"] = True, "tanh"
    plain = fit(cls, device=device, **options)
    mixed = fit(cls, device=device, amp=True, **options)
    assert mixed.loss_curve_ != plain.loss_curve_
    assert_allclose(mixed.loss_curve_, plain.loss_curve_, rtol=0.03)
    assert {w.dtype for w in mixed._weights.values()} == {np.dtype(np.float32)}


def test_mixed_precision_is_captured(card):
    assert fallback(amp=True) is None


def test_answers_and_validation_keep_their_precision(card):
    model = small(ParaRNNRegressor, device="cuda", amp=True, max_epochs=1)
    model.fit(X, Y, X_val=X, y_val=Y)
    assert_allclose(model.score(X, Y), model.validation_scores_[0], rtol=1e-5)
    assert_array_equal(model.predict(X), model.set_params(amp=False).predict(X))


def test_old_cards_scale_the_loss(card):
    card.bfloat16 = False
    # plain descent does not forgive a gradient that is still scaled
    options = {"optimizer": "sgd", "lr": 0.2, "max_epochs": 20}
    plain, mixed = (fit(amp=amp, **options) for amp in (False, True))
    assert mixed.net_.half is torch.float16
    assert fallback(amp=True).startswith("amp=True in float16 scales")
    assert mixed.loss_curve_ != plain.loss_curve_
    # the first scales are too large, and their steps are left out
    assert plain.score(X, Y) > 0.5
    assert_allclose(mixed.score(X, Y), plain.score(X, Y), atol=0.05)
    with pytest.raises(ValueError, match="LBFGS tries several"):
        fit(amp=True, optimizer=torch.optim.LBFGS, grad_clip=None)


def test_float64_in_sixteen_bits_is_refused():
    with pytest.raises(ValueError, match=r"amp=True.*dtype='float64'"):
        fit(device="cpu", amp=True, dtype="float64")


# ------------------------------------------------------------------------ torch.compile


@pytest.fixture
def compiled(monkeypatch):
    """What is handed to a compiler that compiles nothing."""
    options = []

    def compile(self, **kwargs):
        options.append(kwargs)
        self._compiled_call_impl = self._call_impl

    monkeypatch.setattr(torch.nn.Module, "compile", compile)
    return options


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_net_is_trained_compiled_and_answers_as_it_is(card, compiled, device):
    expected = fit(device="cpu")
    assert compiled == []
    net_params = {"compile__mode": "reduce-overhead"}
    model = fit(device=device, compile=True, net_params=net_params)
    assert compiled == [{"mode": "reduce-overhead"}]
    assert model.net_.module_._compiled_call_impl is None
    assert_same_model(model, expected)
    if device == "cuda":
        assert model.net_.capture_fallback_.startswith("compile=True")
    assert type(pickle.loads(pickle.dumps(model)).net_.module_) is RecurrentNet
    assert len(compiled) == 1


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_compiler_that_fails_is_named(card, device):
    net_params = {"compile__backend": "nonsense"}
    with pytest.raises(ValueError, match=r"compile=True, but .*nonsense.*compile=Fals"):
        fit(device=device, compile=True, net_params=net_params)


def test_a_torch_that_cannot_compile_is_named(monkeypatch):
    def refuse(self, **kwargs):
        raise RuntimeError("not supported on this Python")

    monkeypatch.setattr(torch.nn.Module, "compile", refuse)
    with pytest.raises(ValueError, match=r"compile=True.*not supported on this Python"):
        fit(device="cpu", compile=True)


def test_other_errors_are_not_taken_for_the_compilers(compiled, monkeypatch):
    def no_memory(self, x, lengths=None):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(RecurrentNet, "forward", no_memory)
    with pytest.raises(torch.OutOfMemoryError):
        fit(device="cpu", compile=True)


def test_skorch_cannot_be_told_to_compile():
    with pytest.raises(ValueError, match="net_params must not set 'compile'"):
        fit(device="cpu", net_params={"compile": True})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of torch's other parts
@pytest.mark.parametrize("container", [np.asarray, ragged])
def test_compiled_training_is_training(container):
    data = container(X)
    options = {"n_layers": 2, "dropout": 0.2, "max_epochs": 2}
    model = fit(data=data, device="cpu", compile=True, **options)
    assert_same_model(model, fit(data=data, device="cpu", **options), data)
