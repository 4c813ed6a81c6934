"""What the transformers share: their output and how sequences are read."""

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from ..utils._sequences import check_sequences


class BaseTransformer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Base of the transformers, which keep float32 and answer with NumPy arrays.

    Subclasses repeat ``auto_wrap_output_keys=None``: scikit-learn does not inherit it.
    """

    def set_output(self, *, transform=None):
        """Accept the choice and keep NumPy arrays and lists.

        No data frame has the third axis of sequences. A Pipeline sets the output of
        all its steps at once, so refusing it would refuse the whole Pipeline.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            Ignored.

        Returns
        -------
        self : object
        """
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SequenceTransformer(BaseTransformer, auto_wrap_output_keys=None):
    """Base of the transformers of sequences: 2-D, 3-D, lists and object arrays."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _read(self, X, *, reset):
        """Sequences of X, with as many features as in fit."""
        sequences = check_sequences(X, dtype=None, estimator=self)
        by_columns = sequences.container == "2d"
        if reset:
            self._fitted_on_columns = by_columns
        if by_columns == self._fitted_on_columns:
            columns = X if by_columns else sequences.values
            validate_data(self, columns, reset=reset, skip_check_array=True)
        elif by_columns:
            raise ValueError(
                f"{type(self).__name__} was fitted on a 3D array or a list, X is 2D: "
                "pass sequences of one feature as a 3D array, X[:, :, None]."
            )
        elif sequences.n_features > 1:
            raise ValueError(
                f"{type(self).__name__} was fitted on a 2D array, whose rows are "
                "sequences of one feature; the sequences of X have "
                f"{sequences.n_features} features."
            )
        return sequences
