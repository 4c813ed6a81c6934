"""scikit-learn estimators for block-diagonal and light recurrent networks."""

import importlib

__version__ = "0.1.0.dev0"

# public name -> module that defines it; nothing is imported before it is asked for,
# because `import torch` alone takes longer than most scripts that only read data
_PUBLIC = {
    "LRUClassifier": "skpararnn.estimators",
    "LRURegressor": "skpararnn.estimators",
    "ParaRNNClassifier": "skpararnn.estimators",
    "ParaRNNRegressor": "skpararnn.estimators",
    "show_versions": "skpararnn.utils",
}
_SUBMODULES = ("cells", "datasets", "estimators", "nets", "ops", "preprocessing")

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name):
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"skpararnn.{name}")
    raise AttributeError(f"module 'skpararnn' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__, *_SUBMODULES])
