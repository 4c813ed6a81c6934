"""scikit-learn's callback interface (1.9 and newer), or nothing in its place."""

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:
        """Stand-in without callbacks."""

    def with_callbacks(method):
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "EpochHooks", "with_callbacks"]


class EpochHooks:
    """Tell scikit-learn's callbacks of a fit and its epochs.

    Parameters
    ----------
    estimator : estimator
        Holds the callbacks, if it has any.
    max_epochs : int
        Number of epochs announced.
    fitted_attributes : callable
        Returns the attributes that make the estimator ready to predict as it stands.
    **data : dict
        X, y and metadata, handed to callbacks that ask for them.
    """

    def __init__(self, estimator, max_epochs, fitted_attributes, **data):
        self._estimator = estimator
        self._at_end = {"reconstruction_attributes": fitted_attributes, **data}
        self._data = data
        start = getattr(estimator, "_init_callback_context", None)
        self._fit_task = start(max_subtasks=max_epochs) if start else None
        self._epoch_task = None
        self._begin(self._fit_task)

    def begin_epoch(self):
        """Announce the next epoch."""
        if self._fit_task is not None:
            self._epoch_task = self._fit_task.subcontext(task_name="epoch")
            self._begin(self._epoch_task)

    def end_epoch(self):
        """Close the epoch; true if a callback asks to stop."""
        return self._end(self._epoch_task)

    def end_fit(self):
        """Close the fit."""
        self._end(self._fit_task)

    def _begin(self, task):
        if task is not None:
            task.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def _end(self, task):
        return task is not None and task.call_on_fit_task_end(
            estimator=self._estimator, **self._at_end
        )
