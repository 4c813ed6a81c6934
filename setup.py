"""Build script; everything declarative stands in pyproject.toml."""

from setuptools import setup

setup()
