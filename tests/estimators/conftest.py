"""Fixtures of the tests of estimators."""

from fake_card import card

__all__ = ["card"]
