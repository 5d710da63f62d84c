# make demo: a small run and a figure.  make test: everything that must hold.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test lint bench clean

demo: $(STAMP)
	$(BIN)/belated run paper-grid --seeds 3

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,lab]"
	touch $(STAMP)

clean:
	rm -rf .venv out
