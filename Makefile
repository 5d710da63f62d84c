# make demo: a small run and a figure.  make test: everything that must hold.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
LAB := .venv/.lab
DEV := .venv/.dev

.PHONY: demo test lint bench docs clean

demo: $(LAB)
	$(BIN)/belated run paper-grid --seeds 3

test: $(DEV) lint
	$(BIN)/python -m pytest -n 2

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(DEV)
	$(BIN)/python benchmarks/run.py

docs: $(DEV)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs out/docs
	@echo "Documentation: out/docs/index.html"

.venv/.made:
	$(PYTHON) -m venv .venv
	touch $@

$(LAB): .venv/.made pyproject.toml constraints.txt
	$(INSTALL) --editable ".[lab]"
	touch $@

$(DEV): .venv/.made pyproject.toml constraints.txt
	$(INSTALL) --editable ".[dev,lab,ray]"
	touch $@ $(LAB)

clean:
	rm -rf .venv out
