"""What holds for every transformer, as scikit-learn and its users expect it."""

import json
import os
import pickle
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

from skpararnn.preprocessing import SequencePadder, SequenceScaler, TrailingWindows

# rows of a window depend on the rows before them: that is what windows are
WINDOWS_DEPEND_ON_ORDER = {
    "check_methods_sample_order_invariance": "a window holds the rows before",
    "check_methods_subset_invariance": "a window holds the rows before",
}
CHECKED = [
    (TrailingWindows(), WINDOWS_DEPEND_ON_ORDER),
    (TrailingWindows(window_size=3, dilation=2, pad="zero"), WINDOWS_DEPEND_ON_ORDER),
    (TrailingWindows(window_size=1), {}),
    (SequencePadder(), {}),
    (SequencePadder("batch", side="right"), {}),
    (SequencePadder(4, value=0.0, truncate="right"), {}),
    (SequenceScaler(), {}),
    (SequenceScaler(scope="sequence"), {}),
]
SEQUENCES = [SequencePadder(), SequenceScaler(), SequenceScaler(scope="sequence")]
EVERY = [TrailingWindows(3), *SEQUENCES]


def table():
    return np.random.default_rng(0).normal(size=(8, 5))


def ragged(n_features=2, dtype=np.float64):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, n_features)).astype(dtype) for n in (3, 1, 4)]


def padded(n_features=2):
    return SequencePadder(5, side="left").fit_transform(ragged(n_features))


def assert_same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert_array_equal(x, y)


@pytest.fixture
def seeding_of_the_checks():
    """Undo that scikit-learn's checks seed the global generator."""
    state = np.random.get_state()  # noqa: NPY002 (the global state is the point)
    yield
    np.random.set_state(state)  # noqa: NPY002


def run_checks(transformer, failing):
    """Names of the checks by what came of them; a failure raises."""
    names = defaultdict(list)
    for result in check_estimator(
        transformer, expected_failed_checks=failing, on_skip=None
    ):
        names[result["status"]].append(result["check_name"])
    return names


@pytest.mark.usefixtures("seeding_of_the_checks")
@pytest.mark.parametrize(
    ("transformer", "failing"), CHECKED, ids=[str(t) for t, _ in CHECKED]
)
def test_scikit_learns_checks(transformer, failing):
    names = run_checks(transformer, failing)
    assert len(names["passed"]) >= 40
    assert set(names["xfail"]) == set(failing)
    # the one that is skipped here is run by the next test
    assert set(names["skipped"]) <= {"check_array_api_input"}


def test_scikit_learns_checks_with_array_api_support():
    """The variable must be set before scipy is imported: in another process."""
    child = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    for passed, failed, skipped in json.loads(child.stdout):
        assert passed >= 40
        assert failed in (0, len(WINDOWS_DEPEND_ON_ORDER))
        assert skipped == 0


# -- the same as scikit-learn's checks, for sequences ----------------------------------


@pytest.mark.parametrize("transformer", SEQUENCES, ids=str)
@pytest.mark.parametrize("make", [ragged, padded])
def test_fit_is_idempotent_and_the_input_is_left_alone(transformer, make):
    X, before = make(), make()
    transformer = clone(transformer)
    first = transformer.fit(X).transform(X)
    assert_same(transformer.fit(X).transform(X), first)
    assert_same(clone(transformer).fit_transform(X), first)
    assert_same(X, before)


@pytest.mark.parametrize("transformer", SEQUENCES, ids=str)
@pytest.mark.parametrize("make", [ragged, padded])
def test_a_sequence_gets_the_same_answer_alone(transformer, make):
    X = make()
    transformer = clone(transformer).fit(X)
    together = transformer.transform(X)
    for i in range(len(X)):
        assert_same(transformer.transform(X[i : i + 1]), together[i : i + 1])


@pytest.mark.parametrize("transformer", SEQUENCES, ids=str)
def test_float32_stays_in_every_container(transformer):
    X = ragged(dtype=np.float32)
    cube = np.ones((2, 3, 2), dtype=np.float32)
    for batch in (X, cube, cube[:, :, 0]):
        answer = clone(transformer).fit_transform(batch)
        assert {part.dtype for part in answer} == {np.dtype("float32")}


@pytest.mark.parametrize("transformer", SEQUENCES, ids=str)
def test_another_number_of_features_is_refused(transformer):
    transformer = clone(transformer).fit(ragged(2))
    assert transformer.n_features_in_ == 2
    for X in (ragged(3), padded(3), ragged(1)):
        with pytest.raises(ValueError, match=r"X has . features, but .* expecting 2"):
            transformer.transform(X)


@pytest.mark.parametrize("transformer", SEQUENCES, ids=str)
def test_2d_and_3d_may_follow_each_other_only_where_they_agree(transformer):
    name = type(transformer).__name__
    X = table()
    fitted_on_2d = clone(transformer).fit(X)
    assert fitted_on_2d.n_features_in_ == 5
    as_sequences = fitted_on_2d.transform(X[:, :, None])
    assert_array_equal(as_sequences.reshape(8, 5), fitted_on_2d.transform(X).squeeze())
    with pytest.raises(ValueError, match=f"{name} was fitted on a 2D array, .* have 2"):
        fitted_on_2d.transform(padded())

    fitted_on_3d = clone(transformer).fit(X[:, :, None])
    with pytest.raises(ValueError, match=f"{name} was fitted on a 3D array or a list"):
        fitted_on_3d.transform(X)


@pytest.mark.parametrize("transformer", SEQUENCES, ids=str)
def test_bad_sequences_are_named(transformer):
    X = ragged()
    X[2][3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in sample 2, step 3, feature 1"):
        clone(transformer).fit(X)
    fitted = clone(transformer).fit(ragged())
    with pytest.raises(ValueError, match="NaN in sample 2, step 3, feature 1"):
        fitted.transform(X)
    with pytest.raises(ValueError, match="sample 1 of X is an empty sequence"):
        fitted.transform([np.ones((1, 2)), np.ones((0, 2))])


# -- names and output ------------------------------------------------------------------


@pytest.mark.parametrize("transformer", EVERY, ids=str)
def test_names_of_columns_are_kept_and_forgotten(transformer):
    frame = pd.DataFrame(table(), columns=list("abcde"))
    transformer = clone(transformer).fit(frame)
    assert_array_equal(transformer.feature_names_in_, list("abcde"))
    with pytest.raises(ValueError, match="feature names should match"):
        transformer.transform(frame[list("bacde")])
    transformer.fit(table())
    assert not hasattr(transformer, "feature_names_in_")
    if transformer.__sklearn_tags__().input_tags.three_d_array:
        transformer.fit(frame).fit(padded())
        assert not hasattr(transformer, "feature_names_in_")
        assert transformer.n_features_in_ == 2


@pytest.mark.parametrize("transformer", [TrailingWindows(3), SequenceScaler()], ids=str)
def test_names_of_features_out_are_those_in(transformer):
    frame = pd.DataFrame(table(), columns=list("abcde"))
    assert_array_equal(
        clone(transformer).fit(frame).get_feature_names_out(), list("abcde")
    )
    assert_array_equal(
        clone(transformer).fit(table()).get_feature_names_out(),
        ["x0", "x1", "x2", "x3", "x4"],
    )


@pytest.mark.parametrize("output", ["default", "pandas", "polars", None])
@pytest.mark.parametrize("transformer", EVERY, ids=str)
def test_set_output_leaves_arrays(transformer, output):
    X = pd.DataFrame(table())
    expected = clone(transformer).fit_transform(X)
    transformer = clone(transformer)
    assert transformer.set_output(transform=output) is transformer
    answers = transformer.fit_transform(X), clone(transformer).fit(X).transform(X)
    with sklearn.config_context(transform_output=output or "default"):
        answers += clone(transformer).fit_transform(X), transformer.transform(X)
    for answer in answers:
        assert type(answer) is np.ndarray
        assert_array_equal(answer, expected)


@pytest.mark.parametrize("transformer", SEQUENCES, ids=str)
@pytest.mark.parametrize("make", [ragged, padded])
def test_global_output_leaves_sequences(transformer, make):
    expected = clone(transformer).fit_transform(make())
    with sklearn.config_context(transform_output="pandas"):
        answer = clone(transformer).fit_transform(make())
    assert type(answer) is type(expected)
    assert_same(answer, expected)


@pytest.mark.parametrize("transformer", EVERY, ids=str)
def test_a_pipeline_may_set_the_output_of_all_its_steps(transformer):
    pipeline = make_pipeline(StandardScaler(), clone(transformer))
    pipeline.set_output(transform="pandas")
    frame = pd.DataFrame(table(), columns=list("abcde"))
    scaled = StandardScaler().fit_transform(frame.to_numpy())
    answer = pipeline.fit_transform(frame)
    assert type(answer) is np.ndarray
    assert_array_equal(answer, clone(transformer).fit_transform(scaled))


# -- tags, state and pickles -----------------------------------------------------------


@pytest.mark.parametrize("transformer", EVERY, ids=str)
def test_tags_say_what_is_true(transformer):
    tags = get_tags(transformer)
    takes_sequences = not isinstance(transformer, TrailingWindows)
    assert tags.input_tags.two_d_array
    assert tags.input_tags.three_d_array is takes_sequences
    assert not tags.input_tags.one_d_array
    assert not tags.input_tags.allow_nan  # missing values; padding is none
    assert not tags.input_tags.sparse
    assert tags.requires_fit
    assert not tags.target_tags.required
    assert set(tags.transformer_tags.preserves_dtype) == {"float32", "float64"}


@pytest.mark.parametrize("transformer", EVERY, ids=str)
def test_unfitted(transformer):
    with pytest.raises(NotFittedError):
        clone(transformer).transform(table())


@pytest.mark.parametrize("transformer", EVERY, ids=str)
def test_pickled_twice(transformer):
    X = table()
    transformer = clone(transformer).fit(X)
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(transformer))))
    assert_array_equal(again.transform(X), transformer.transform(X))
    assert again.get_params() == pytest.approx(transformer.get_params(), nan_ok=True)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (TrailingWindows(0), "window_size must be an integer of at least 1, got 0"),
        (TrailingWindows(2.0), "window_size must be an integer of at least 1, got 2.0"),
        (TrailingWindows(True), "window_size must be an integer"),
        (TrailingWindows(dilation=0), "dilation must be an integer of at least 1"),
        (TrailingWindows(pad="mean"), "pad must be one of 'nan', 'edge', 'zero', got"),
        (SequencePadder(0), "length must be None or .*'batch' or an integer of at le"),
        (SequencePadder("longest"), "length must be .* got 'longest'"),
        (SequencePadder(side="top"), "side must be one of 'left', 'right', got 'top'"),
        (SequencePadder(value="0"), "value must be a finite number or NaN, got"),
        (SequencePadder(truncate=None), "truncate must be one of 'left', 'right'"),
        (SequenceScaler(with_mean=1), "with_mean must be True or False, got 1"),
        (SequenceScaler(with_std=None), "with_std must be True or False"),
        (SequenceScaler(scope="all"), "scope must be one of 'feature', 'sequence'"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named_in_fit(transformer, message):
    with pytest.raises(ValueError, match=message):
        transformer.fit(table())


if __name__ == "__main__":
    found = [run_checks(*each) for each in CHECKED]
    statuses = "passed", "xfail", "skipped"
    print(json.dumps([[len(names[s]) for s in statuses] for names in found]))
