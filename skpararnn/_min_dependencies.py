"""Oldest supported version of every dependency, and the extra that needs it.

This table is the one place where the bounds are stated. pyproject.toml repeats
them for pip (a test holds the two together), and ``make slow`` installs exactly
these versions and runs the tests on them.
"""

PYTHON_MIN_VERSION = "3.11"

# name: (oldest version, extra that asks for it; None = always installed)
MIN_DEPENDENCIES = {
    "numpy": ("1.26.4", None),
    "scipy": ("1.11.4", None),
    "scikit-learn": ("1.6.1", None),
    "torch": ("2.6.0", None),
    "skorch": ("1.1.0", None),
    "pandas": ("2.2.1", None),  # 2.2.0 warns about pyarrow on import
    "joblib": ("1.3.2", None),  # results as they come (`return_as`) since 1.3
    "tqdm": ("4.66.0", None),
    "pytest": ("8.0.0", "test"),
    "pytest-xdist": ("3.6.1", "test"),
    "setuptools": ("77.0.3", "test"),  # the build backend; a test builds the archives
    "matplotlib": ("3.8.0", "test"),
    "ruff": ("0.17.0", "lint"),
}
