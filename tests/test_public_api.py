"""The names a user can import, and what importing and looking at them may cost."""

import importlib
import subprocess
import sys
import textwrap

import pytest

import skpararnn

ESTIMATORS = ("LRUClassifier", "LRURegressor", "ParaRNNClassifier", "ParaRNNRegressor")
SUBPACKAGES = ("cells", "datasets", "estimators", "nets", "ops", "preprocessing")


def run_fresh(code):
    """Run code in a new interpreter, where nothing was imported before."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


# -- names ---------------------------------------------------------------------------


def test_top_level_names_are_the_documented_ones():
    assert set(skpararnn.__all__) == {*ESTIMATORS, "show_versions", "__version__"}


@pytest.mark.parametrize("name", skpararnn.__all__)
def test_top_level_name_resolves(name):
    assert getattr(skpararnn, name) is not None


@pytest.mark.parametrize("package", SUBPACKAGES)
def test_all_is_sorted_free_of_repeats_and_resolves(package):
    module = importlib.import_module(f"skpararnn.{package}")
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert not name.startswith("_")
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", SUBPACKAGES)
def test_public_classes_and_functions_are_in_all(package):
    module = importlib.import_module(f"skpararnn.{package}")
    defined_here = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "").startswith(f"skpararnn.{package}")
    }
    assert defined_here <= set(module.__all__)


def test_dir_lists_public_names_and_subpackages():
    assert {*skpararnn.__all__, *SUBPACKAGES} <= set(dir(skpararnn))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'skpararnn' has no attribute 'ParaRNM'"):
        _ = skpararnn.ParaRNM


def test_star_import_brings_exactly_all():
    names = {}
    exec("from skpararnn import *", names)
    assert set(names) - {"__builtins__"} == set(skpararnn.__all__)


# -- what is loaded when, each in a fresh process --------------------------------------


def test_import_loads_nothing_but_the_package():
    loaded = run_fresh("""
        import sys, skpararnn
        heavy = {"numpy", "scipy", "pandas", "sklearn", "torch", "skorch", "matplotlib"}
        print(sorted(heavy & set(sys.modules)))
    """)
    assert loaded.strip() == "[]"


def test_subpackages_are_reached_as_attributes():
    run_fresh("""
        import skpararnn
        skpararnn.preprocessing.TrailingWindows
        skpararnn.ops.rnn
    """)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_handling_an_unfitted_estimator_loads_no_torch(name):
    loaded = run_fresh(f"""
        import sys
        from sklearn.base import clone
        from skpararnn import {name}

        model = clone({name}(d_s=4)).set_params(K=3, max_epochs=2)
        assert model.get_params()["K"] == 3
        assert "K=3" in repr(model)
        assert "{name}" in model._repr_html_()
        print(sorted({{"torch", "skorch", "matplotlib"}} & set(sys.modules)))
    """)
    assert loaded.strip() == "[]"


@pytest.mark.parametrize("package", ["datasets", "preprocessing"])
def test_data_packages_load_no_torch(package):
    loaded = run_fresh(f"""
        import sys
        from skpararnn.{package} import *
        print(sorted({{"torch", "skorch", "matplotlib"}} & set(sys.modules)))
    """)
    assert loaded.strip() == "[]"


# -- show_versions ---------------------------------------------------------------------


def test_show_versions_prints_and_returns_nothing(capsys):
    assert skpararnn.show_versions() is None
    printed = capsys.readouterr().out
    assert printed.startswith(f"skpararnn {skpararnn.__version__}\n")
    for word in ("python", "scikit-learn", "torch", "OMP_NUM_THREADS", "CUDA"):
        assert f"    {word}" in printed
    assert "backends        cpu, triton, native, reference\n" in printed


def test_show_versions_works_without_torch(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # import torch now raises
    skpararnn.show_versions()
    assert "cannot be imported" in capsys.readouterr().out


def test_show_versions_names_the_remedy_for_a_missing_package(capsys, monkeypatch):
    from skpararnn.utils import _show_versions

    def not_installed(name):
        raise _show_versions.PackageNotFoundError(name)

    monkeypatch.setattr(_show_versions, "version", not_installed)
    skpararnn.show_versions()
    printed = capsys.readouterr().out
    assert 'python -m pip install "skpararnn[test]"' in printed
    assert 'python -m pip install "torch>=' in printed
