# The words shared by a developer's fingers, CONTRIBUTING.rst and CI.
# `make lint PYTHON=path/to/python` picks an environment; the default is the active one.
PYTHON ?= python

.PHONY: install kernels lint test slow sanitize bench clean

install: # the package, editable, with all that development needs
	$(PYTHON) -m pip install -e ".[test,lint]"

kernels: # the CPU kernels of an editable install, after a change of scan.cpp
	$(PYTHON) setup.py build_ext --inplace --force

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

test: # everything not marked slow
	$(PYTHON) -m pytest

slow: # the tests marked slow, then the suite on the oldest supported versions
	$(PYTHON) benchmarks/slow.py

sanitize: # the kernel's contract with every sanitizer and compiler, twenty minutes
	$(PYTHON) benchmarks/sanitizers.py

bench: # layers and estimators beside torch's own; BENCH=--quick takes 3 minutes
	$(PYTHON) -m benchmarks.speed $(BENCH)

clean: # what building, testing and linting leave behind; never data or results
	rm -rf build dist *.egg-info skpararnn/kernels/cpu/*.so .benchmarks .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path "./.git/*" -prune -exec rm -rf {} +
