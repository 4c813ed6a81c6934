"""Helpers shared by the layers above the nets."""

from ._show_versions import show_versions

__all__ = ["show_versions"]
