"""Default parameters give good models on real data."""

import pytest

from skpararnn import LRUClassifier, ParaRNNClassifier
from skpararnn.datasets import load_japanese_vowels


@pytest.mark.parametrize(
    "model",
    [
        ParaRNNClassifier(random_state=0),
        ParaRNNClassifier(cell="gru", random_state=0),
        LRUClassifier(random_state=0),
    ],
)
def test_speakers_of_japanese_vowels(model):
    model.fit(*load_japanese_vowels(subset="train", return_X_y=True))
    X, y = load_japanese_vowels(subset="test", return_X_y=True)
    assert model.score(X, y) >= 0.96
