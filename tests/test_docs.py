"""What the documents say is run, and held against the code.

Snippets of the pages are run in one namespace per page, in the order of the page;
examples of docstrings are run by doctest; and what a docstring says about parameters
is compared with the signature.
"""

import ast
import doctest
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.rst").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.rst"), *ROOT.glob("doc/**/*.rst")])
MODULES = (
    "skpararnn",
    "skpararnn.cells",
    "skpararnn.datasets",
    "skpararnn.estimators",
    "skpararnn.nets",
    "skpararnn.ops",
    "skpararnn.preprocessing",
)


def public_objects():
    """Public classes and functions by their shortest name, without repeats."""
    objects = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for public in module.__all__:
            value = getattr(module, public)
            if inspect.isclass(value) or inspect.isfunction(value):
                objects.setdefault(value, f"{name.removeprefix('skpararnn.')}.{public}")
    return {name: value for value, name in objects.items()}


def public_callables():
    """The public objects, and the public methods of the classes defined here."""
    callables = {}
    for name, value in public_objects().items():
        callables[name] = value
        methods = inspect.getmembers(value, inspect.isfunction)
        for method, function in methods if inspect.isclass(value) else []:
            if not method.startswith("_") and _is_ours(function):
                callables[f"{name}.{method}"] = function
    return callables


def _is_ours(function):
    return function.__module__.startswith("skpararnn") and function.__doc__


CALLABLES = public_callables()
ESTIMATORS = [name for name in CALLABLES if re.fullmatch(r"skpararnn\.[A-Z]\w+", name)]


# -- pages ---------------------------------------------------------------------------


def snippets(page):
    """(first line, source) of each python block of a page in reST."""
    block = re.compile(
        r"^\.\. code-block:: python\n\n((?:(?: {4}.*)?\n)+)", flags=re.MULTILINE
    )
    text = page.read_text(encoding="utf-8") + "\n"
    for match in block.finditer(text):
        line = text.count("\n", 0, match.start(1))
        yield line, textwrap.dedent(match.group(1))


def test_snippets_are_found_with_their_lines(tmp_path):
    page = tmp_path / "page.rst"
    page.write_text(
        "Title\n\n.. code-block:: python\n\n    a = 1\n\n    b = 2\n\nText\n\n"
        ".. code-block:: bash\n\n    c\n\n.. code-block:: python\n\n    d = 4\n"
    )
    (first_line, first), (second_line, second) = snippets(page)
    assert (first_line, first.strip()) == (4, "a = 1\n\nb = 2")
    assert (second_line, second.strip()) == (16, "d = 4")


def test_readme_has_snippets():
    assert len(list(snippets(ROOT / "README.rst"))) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_snippets_of_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a snippet may write a file
    namespace = {"__name__": "__main__"}
    for line, source in snippets(page):
        # the padding lets a traceback name the line of the page
        exec(compile("\n" * line + source, page.name, "exec"), namespace)


def test_readme_explains_parameters_that_exist():
    text = README.partition("What the parameters mean")[2].partition("The docstrings")[
        0
    ]
    terms = [line for line in text.splitlines() if line.startswith("``")]
    explained = set(re.findall(r"``(\w+)``", " ".join(terms)))
    existing = {
        name
        for estimator in ESTIMATORS
        for name in inspect.signature(CALLABLES[estimator]).parameters
    }
    assert len(explained) > 15
    assert explained <= existing


def test_public_names_have_a_line_in_changes():
    changes = (ROOT / "CHANGES.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"``(?:\w+\.)?(\w+)``", changes))
    public = {
        name for module in MODULES for name in importlib.import_module(module).__all__
    }
    assert public - {"__version__"} <= listed


# -- docstrings ------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLABLES)
def test_examples_of_docstring_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    report = []
    for example in finder.find(CALLABLES[name], name, globs={}):
        runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("name", public_objects())
def test_public_object_has_an_example(name):
    assert ">>> " in CALLABLES[name].__doc__


def documented_parameters(docstring):
    """What the section Parameters of a numpydoc docstring says of each name."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)",
        re.sub(r" *\\\n +", " ", inspect.cleandoc(docstring or "")),  # folded lines
        flags=re.MULTILINE | re.DOTALL,
    )
    heads = re.findall(
        r"^\*{0,2}(\w[\w, ]*?)(?: : (.*))?$",
        section.group(1) if section else "",
        flags=re.MULTILINE,
    )
    return {name: said for names, said in heads for name in names.split(", ")}


def states(said, default):
    """Whether the text after the colon states this default, or refers elsewhere."""
    if not said or (said.endswith("optional") and default is None):
        return True
    written = said.partition("default=")[2].rstrip()
    try:
        value = ast.literal_eval(written)
    except (ValueError, SyntaxError):  # nan, a class, a function
        return written.split(".")[-1] == getattr(default, "__name__", str(default))
    return type(value) is type(default) and value == default


def _positional(names, parameters):
    """Those names whose order matters to a caller."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return [name for name in names if parameters[name].kind is not kind]


@pytest.mark.parametrize("name", CALLABLES)
def test_docstring_and_signature_agree(name):
    """Every parameter is described, and every default is the true one."""
    parameters = dict(inspect.signature(CALLABLES[name]).parameters)
    parameters.pop("self", None)
    described = documented_parameters(CALLABLES[name].__doc__)
    assert described.keys() == parameters.keys()
    assert _positional(described, parameters) == _positional(parameters, parameters)
    for parameter in parameters.values():
        said = described[parameter.name]
        if parameter.default is parameter.empty:
            assert "default=" not in said, parameter
        else:
            assert states(said, parameter.default), parameter


@pytest.mark.parametrize(
    ("said", "default", "true"),
    [
        ("int, default=2", 2, True),
        ("int, default=2", 3, False),
        ("float, default=1", 1.0, False),
        ('{"tanh", "relu"}, default="tanh"', "tanh", True),
        ("float, default=nan", float("nan"), True),
        ("data-type, default=float32", np.float32, True),
        ("int, optional", None, True),
        ("int, optional", 2, False),
        ("int", 2, False),
        ("int or None, default=None", None, True),
    ],
)
def test_a_wrong_default_is_found(said, default, true):
    assert states(said, default) is true


@pytest.mark.parametrize("name", ESTIMATORS)
def test_docstring_lists_the_fitted_attributes(name):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(20, 4)), columns=list("abcd"))
    y = np.arange(20) % 3
    model = CALLABLES[name](d_s=2, K=2, max_epochs=2).fit(X, y)

    section = CALLABLES[name].__doc__.partition("Attributes\n")[2]
    lines = re.findall(
        r"^ {4}(\w[\w, ]*_) : ", section.partition("See Also")[0], re.MULTILINE
    )
    listed = {name for line in lines for name in line.split(", ")}
    fitted = {name for name in vars(model) if re.fullmatch(r"[A-Za-z]\w*_", name)}
    assert fitted <= listed
    assert [name for name in listed if not hasattr(model, name)] == []
