"""Which implementation of an op runs."""

from ._checks import check_choice

BACKENDS = ("auto", "reference")


def choose(backend, implementations):
    """Return the implementation that `backend` names; "auto" always finds one.

    Parameters
    ----------
    backend : {"auto", "reference"}
        A name asked for runs or is refused; it is never replaced by another one.
    implementations : dict of str to callable
        What the op offers. All take the same arguments and return the same values.

    Raises
    ------
    ValueError
        For an unknown name; the message lists the names.
    """
    check_choice("backend", backend, BACKENDS)
    return implementations["reference" if backend == "auto" else backend]
