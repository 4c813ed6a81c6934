"""Checks of constructor parameters, as a table of rules.

Only what nothing below the door checks stands here: the nets refuse what they cannot
build, and torch refuses its own options.
"""

from numbers import Integral, Real

import numpy as np


def integer(low):
    """Rule: an integer of at least `low`."""
    return (
        lambda v: _is_number(v, Integral) and v >= low,
        f"an integer of at least {low}",
    )


def real(low, high=np.inf, *, low_open=False, high_open=False):
    """Rule: a finite number between `low` and `high`."""
    high_open = high_open or high == np.inf
    left, right = "(" if low_open else "[", ")" if high_open else "]"
    return (
        lambda v: (
            _is_number(v, Real)
            and (low < v if low_open else low <= v)
            and (v < high if high_open else v <= high)
        ),
        f"a number in {left}{low:g}, {high:g}{right}",
    )


def choice(*names):
    """Rule: one of these names."""
    return (
        lambda v: isinstance(v, str) and v in names,
        "one of " + ", ".join(map(repr, names)),
    )


def boolean():
    """Rule: True or False."""
    return lambda v: isinstance(v, (bool, np.bool_)), "True or False"


def none():
    """Rule: None."""
    return lambda v: v is None, "None"


def instance(kind, text):
    """Rule: an instance of `kind`."""
    return lambda v: isinstance(v, kind), text


def a_callable():
    """Rule: what can be called, but is no class."""
    return lambda v: callable(v) and not isinstance(v, type), "a callable"


def any_of(*rules):
    """Rule: what one of the rules accepts."""
    return (
        lambda v: any(accepts(v) for accepts, _ in rules),
        " or ".join(text for _, text in rules),
    )


def check_parameters(rules, parameters):
    """Hold parameters against rules.

    Parameters
    ----------
    rules : dict of str to (callable, str)
        What a parameter must be: a test and its words.
    parameters : dict

    Raises
    ------
    ValueError
        Naming the parameter, what it must be and what it is.
    """
    for name, (accepts, text) in rules.items():
        value = parameters.get(name)
        if name in parameters and not accepts(value):
            raise ValueError(f"{name} must be {text}, got {value!r}.")


def _is_number(value, kind):
    return isinstance(value, kind) and not isinstance(value, (bool, np.bool_))
