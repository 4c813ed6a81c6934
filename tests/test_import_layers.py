"""Imports go downward only: the table of layers, held against the source.

Every import statement is read, those inside functions too: where an import stands
decides when it is paid for, not which layer may know which.
"""

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import skpararnn

ROOT = Path(skpararnn.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.rst"
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}

# layer: what it may import besides itself, ".x" a layer and "." the package's root
LAYERS = {
    ".": {".estimators", ".utils"},
    ".estimators": {".", ".nets", ".cells", ".ops", ".preprocessing", ".utils"}
    | {"numpy", "scipy", "pandas", "sklearn", "joblib", "torch"},
    ".nets": {".cells", ".ops", "numpy", "torch"},
    ".cells": {".ops", "numpy", "torch"},
    ".ops": {".kernels", "numpy", "torch"},
    ".kernels": {"numpy"},
    ".preprocessing": {".utils", "numpy", "scipy", "pandas", "sklearn"},
    ".datasets": {".utils", "numpy", "scipy", "pandas", "sklearn"},
    ".utils": {".", "numpy", "scipy", "pandas", "sklearn"},
}

# file or folder: what it alone may import beyond its layer
ONLY_HERE = {
    "estimators/_training.py": {"skorch", "tqdm"},
    # devices, threads, backends, compiled libraries
    "utils/_show_versions.py": {"torch", ".ops", ".kernels"},
    # its functions are decorated when their files are read
    "kernels/triton/": {"triton"},
}

# folders that need an extra: imported only inside the function in need
LAZY = {"skpararnn.kernels.triton"}

# extras and what is missing on some platforms: only inside the function in need
OPTIONAL = {"matplotlib", "triton", "skops"}


class Import(NamedTuple):
    module: str  # absolute, "skpararnn.ops._rnn"
    line: int
    inside_function: bool


def imports_of(source, package):
    """Every import of a source file that lies in the dotted package."""
    tree = ast.parse(source)
    within = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        for module in _modules(node, package):
            yield Import(module, node.lineno, id(node) in within)


def _modules(node, package):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        parents = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*parents, base] if base else parents)
    # `from skpararnn import ops` imports the layer, `from .ops import rnn` a name of it
    return [_submodule(base, alias.name) or base for alias in node.names]


def _submodule(base, name):
    path = ROOT.parent.joinpath(*base.split("."), name)
    return f"{base}.{name}" if path.is_dir() or path.with_suffix(".py").exists() else ""


def layer_of(module):
    """The folder below the package with a dot, "." for the package's own files."""
    folder = module.split(".")[1:2]
    return f".{folder[0]}" if folder and (ROOT / folder[0]).is_dir() else "."


def package_of(name):
    return ".".join(["skpararnn", *Path(name).parent.parts])


def complaints(name, source):
    """What a file imports against the table, one sentence each."""
    layer = layer_of(package_of(name))
    own = {
        library
        for place in ONLY_HERE
        if name.startswith(place)
        for library in ONLY_HERE[place]
    }
    allowed = {layer} | LAYERS[layer] | own
    for module, line, inside_function in imports_of(source, package_of(name)):
        library = module.split(".")[0]
        imported = layer_of(module) if library == "skpararnn" else library
        where = f"{name}:{line}: {layer} imports {module}"
        if module in LAZY or imported in OPTIONAL - own:
            if not inside_function:
                yield f"{where} outside a function, but it may not be installed"
        elif imported not in allowed | sys.stdlib_module_names:
            yield f"{where}, which it may not know"


def documented_layers():
    """The table of CONTRIBUTING.rst: layer to its imports, file to its own ones."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    _, head, body, *_ = re.split(r"^=+  =+  =+$", text, flags=re.MULTILINE)
    assert head.split()[0] == "layer"
    rows, layer = {}, ""
    for line in body.strip("\n").splitlines():
        layer = line[:17].strip(" `") or layer  # a row goes on where the name is blank
        rows[layer] = f"{rows.get(layer, '')} {line[59:]}"
    layers, only_here = {}, {}
    for layer, imports in rows.items():
        own, _, exception = imports.partition("only ")
        file, _, allowed = exception.partition(": ")
        layers[f".{layer}"] = names_in(own)
        if file:
            only_here[f"{layer}/{file.strip('`')}"] = names_in(allowed)
    return layers, only_here


def names_in(text):
    """Libraries are plain words, layers stand in backticks."""
    layers = {f".{name}" for name in re.findall(r"``(\w+)``", text)}
    libraries = set(re.findall(r"\w+", re.sub(r"``\w+``", "", text)))
    return libraries | {"." if name == ".skpararnn" else name for name in layers}


def test_contributing_has_this_table():
    layers = {layer: allowed for layer, allowed in LAYERS.items() if layer != "."}
    assert documented_layers() == (layers, ONLY_HERE)


def test_every_folder_is_a_layer_of_the_table():
    assert {layer_of(package_of(name)) for name in FILES} == set(LAYERS)


@pytest.mark.parametrize("name", FILES)
def test_file_imports_downward_only(name):
    assert not list(complaints(name, FILES[name].read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("name", "source", "complaint"),
    [
        ("ops/_x.py", "from ..cells import CELLS", ".ops imports skpararnn.cells, "),
        ("ops/_x.py", "from .. import nets", ".ops imports skpararnn.nets, which"),
        ("ops/_x.py", "import skpararnn.cells", "skpararnn.cells, which"),
        ("nets/_x.py", "def f():\n    import sklearn", ".nets imports sklearn, which"),
        ("estimators/_base.py", "import skorch.utils", "skorch.utils, which"),
        ("datasets/_x.py", "from torch import nn", ".datasets imports torch, which"),
        ("kernels/cpu/_x.py", "import torch", ".kernels imports torch, which"),
        ("kernels/cpu/_x.py", "from ...ops import rnn", "imports skpararnn.ops, which"),
        ("utils/_x.py", "from ..kernels import cpu", "skpararnn.kernels.cpu, which"),
        ("utils/_x.py", "import matplotlib.pyplot", "outside a function"),
        ("kernels/cpu/_x.py", "import triton", "outside a function"),
        ("kernels/triton/_x.py", "import torch", ".kernels imports torch, which"),
        ("ops/_x.py", "from ..kernels import triton", "outside a function"),
    ],
)
def test_a_wrong_import_is_found(name, source, complaint):
    (found,) = complaints(name, source)
    assert complaint in found


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("nets/_x.py", "from ..cells import CELLS\nfrom ._y import f\nimport torch.nn"),
        ("estimators/_training.py", "import skorch"),
        ("ops/_x.py", "from ..kernels import cpu"),
        ("preprocessing/_x.py", "from ..utils._sequences import check_sequences"),
        ("utils/_x.py", "def f():\n    import matplotlib"),
        ("kernels/triton/_x.py", "import triton.language as tl\nfrom ._y import f"),
        ("ops/_x.py", "def f():\n    from ..kernels import triton"),
    ],
)
def test_a_right_import_is_let_through(name, source):
    assert not list(complaints(name, source))
