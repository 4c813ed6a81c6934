"""Generated data obey the laws that their docstrings state."""

import numpy as np
import pytest

from skpararnn.datasets import make_adding_problem, make_rnn_process

# -- adding problem --------------------------------------------------------------------


@pytest.mark.parametrize("n_timesteps", [2, 3, 10, 101])
def test_one_mark_lies_in_each_half(n_timesteps):
    X, _ = make_adding_problem(2000, n_timesteps, random_state=0)
    marks, half = X[:, :, 1], n_timesteps // 2
    assert X.shape == (2000, n_timesteps, 2)
    assert set(np.unique(marks)) <= {0, 1}
    assert (marks[:, :half].sum(axis=1) == 1).all()
    assert (marks[:, half:].sum(axis=1) == 1).all()
    # no step is left out: the rarest is expected about 40 times
    assert (marks.sum(axis=0) > 0).all()


def test_marks_are_uniform_in_their_half():
    X, _ = make_adding_problem(20000, 5, random_state=0)
    expected = [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3]
    # four standard deviations of a share are 0.014
    np.testing.assert_allclose(X[:, :, 1].mean(axis=0), expected, atol=0.015)


def test_target_is_the_sum_of_marked_values():
    X, y = make_adding_problem(500, 30, random_state=0)
    marked = [values[marks == 1] for values, marks in X.transpose(0, 2, 1)]
    np.testing.assert_array_equal(y, np.sum(marked, axis=1))


def test_answering_one_has_the_documented_error():
    X, y = make_adding_problem(20000, 10, random_state=0)
    assert X.dtype == y.dtype == np.float64
    assert X[:, :, 0].min() >= 0
    assert X[:, :, 0].max() < 1
    # four standard deviations of this mean are 0.0056
    assert np.mean((y - 1) ** 2) == pytest.approx(1 / 6, abs=0.006)


@pytest.mark.parametrize("n_timesteps", [1, 0, 2.0, None])
def test_adding_problem_needs_two_steps(n_timesteps):
    with pytest.raises(ValueError, match="n_timesteps must be an integer of at"):
        make_adding_problem(n_timesteps=n_timesteps)


@pytest.mark.parametrize("n_samples", [0, True, "5"])
def test_adding_problem_needs_a_sample(n_samples):
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1"):
        make_adding_problem(n_samples)


# -- RNN process -----------------------------------------------------------------------


def last_state(x, weights):
    """State after the last step of one sequence, number by number."""
    d = len(weights.bias_h)
    h = [0.0] * d
    for step in x:
        h = [
            np.tanh(
                weights.bias_h[i]
                + sum(weights.weight_h[i, j] * h[j] for j in range(d))
                + sum(weights.weight_x[i, j] * step[j] for j in range(len(step)))
            )
            for i in range(d)
        ]
    return h


@pytest.mark.parametrize("recurrent", ["normal", "jordan"])
@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_noiseless_target_is_the_equation(recurrent, n_outputs):
    X, y, weights = make_rnn_process(
        4,
        5,
        n_features=2,
        hidden_size=8,
        n_outputs=n_outputs,
        recurrent=recurrent,
        noise_variance=0,
        return_weights=True,
        random_state=0,
    )
    assert X.shape == (4, 5, 2)
    assert y.shape == (4, n_outputs or 8)
    for x, target in zip(X, y, strict=True):
        expected = weights.weight_y @ last_state(x, weights) + weights.bias_y
        # eight terms a sum, rounded in another order
        np.testing.assert_allclose(target, expected, rtol=0, atol=1e-14)


def test_without_readout_the_state_itself_is_seen():
    *_, weights = make_rnn_process(
        2, hidden_size=8, n_outputs=None, return_weights=True, random_state=0
    )
    np.testing.assert_array_equal(weights.weight_y, np.eye(8))
    assert not weights.bias_y.any()
    assert not weights.bias_h.any()


def test_weights_have_the_documented_shapes():
    X, y, weights = make_rnn_process(7, return_weights=True, random_state=0)
    assert X.shape == (7, 20, 1)
    assert y.shape == (7, 10)
    assert {name: value.shape for name, value in weights.items()} == {
        "weight_x": (128, 1),
        "weight_h": (128, 128),
        "bias_h": (128,),
        "weight_y": (10, 128),
        "bias_y": (10,),
    }


@pytest.mark.parametrize("variance", [1, 5.0])
def test_noise_has_its_variance(variance):
    settings = {"hidden_size": 4, "random_state": 0}
    X, noisy = make_rnn_process(5000, 3, noise_variance=variance, **settings)
    same_X, clean = make_rnn_process(5000, 3, noise_variance=0, **settings)
    np.testing.assert_array_equal(X, same_X)
    # 50,000 draws: four standard deviations of the variance are 2.5 %
    assert np.var(noisy - clean) == pytest.approx(variance, rel=0.025)


@pytest.mark.parametrize("radius", [0.5, 0.9, 1.2])
def test_normal_recurrence_has_its_spectral_radius(radius):
    *_, weights = make_rnn_process(
        1, hidden_size=32, spectral_radius=radius, return_weights=True, random_state=0
    )
    moduli = np.abs(np.linalg.eigvals(weights.weight_h))
    assert moduli.max() == pytest.approx(radius, rel=1e-12)


def test_jordan_recurrence_holds_r4_and_c2_blocks_in_turn():
    *_, weights = make_rnn_process(
        1, hidden_size=64, recurrent="jordan", return_weights=True, random_state=0
    )
    rebuilt = np.zeros((64, 64))
    for start in range(0, 64, 4):
        block = weights.weight_h[start : start + 4, start : start + 4]
        if start % 8 == 0:
            modulus = abs(block[0, 0])
            expected = block[0, 0] * np.eye(4) + np.eye(4, k=1)
        else:
            rotation = block[:2, :2]
            modulus = np.hypot(*rotation[0])
            assert rotation[0, 0] == rotation[1, 1]
            assert rotation[1, 0] == -rotation[0, 1] > 0
            expected = np.block([[rotation, np.eye(2)], [np.zeros((2, 2)), rotation]])
        assert 0.45 <= modulus <= 0.9
        rebuilt[start : start + 4, start : start + 4] = expected
    np.testing.assert_array_equal(weights.weight_h, rebuilt)
    assert set(np.sign(np.diag(rebuilt)[::8])) == {-1, 1}


@pytest.mark.parametrize("recurrent", ["normal", "jordan"])
def test_states_neither_vanish_nor_saturate(recurrent):
    X, h = make_rnn_process(
        500, 50, n_outputs=None, recurrent=recurrent, noise_variance=0, random_state=0
    )
    assert 0.2 < h.std() < 0.6
    assert (np.abs(h) > 0.99).mean() < 0.01
    assert np.isfinite(X).all()


def test_jordan_blocks_need_a_width_that_they_fill():
    with pytest.raises(ValueError, match=r"must be a multiple of 4 .* got 6"):
        make_rnn_process(recurrent="jordan", hidden_size=6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1"),
        ({"n_timesteps": 0}, "n_timesteps must be an integer of at least 1"),
        ({"n_features": 1.5}, "n_features must be an integer"),
        ({"hidden_size": "8"}, "hidden_size must be an integer"),
        ({"n_outputs": 0}, "n_outputs must be None or an integer of at least 1"),
        ({"recurrent": "orthogonal"}, "recurrent must be one of 'normal', 'jordan'"),
        ({"spectral_radius": 0}, "spectral_radius must be a number"),
        ({"spectral_radius": np.inf}, "spectral_radius must be a number"),
        ({"noise_variance": -1}, "noise_variance must be a number"),
        ({"noise_variance": np.nan}, "noise_variance must be a number"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_rnn_process(**wrong)


# -- randomness ------------------------------------------------------------------------


def draw_adding(random_state):
    return make_adding_problem(5, 6, random_state=random_state)


def draw_rnn(random_state):
    return make_rnn_process(5, 6, hidden_size=8, random_state=random_state)


def draw_jordan(random_state):
    return make_rnn_process(
        5, 6, hidden_size=8, recurrent="jordan", random_state=random_state
    )


@pytest.mark.parametrize("draw", [draw_adding, draw_rnn, draw_jordan])
def test_a_seed_fixes_the_draws(draw):
    first, second, other = draw(1), draw(np.random.RandomState(1)), draw(2)
    for one, two, three in zip(first, second, other, strict=True):
        np.testing.assert_array_equal(one, two)
        assert (one != three).any()


@pytest.mark.parametrize("draw", [draw_adding, draw_rnn])
def test_a_generator_moves_on(draw):
    rng = np.random.RandomState(0)
    assert (draw(rng)[1] != draw(rng)[1]).any()


@pytest.mark.parametrize("draw", [draw_adding, draw_rnn])
def test_no_seed_draws_anew(draw):
    # that NumPy's global generator stays where it is, conftest sees to
    assert (draw(None)[1] != draw(None)[1]).any()


@pytest.mark.parametrize("draw", [draw_adding, draw_rnn])
def test_a_random_state_that_is_no_seed_is_refused(draw):
    with pytest.raises(ValueError, match="cannot be used to seed"):
        draw("seed")
