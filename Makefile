# make demo: a small run and a figure.  make test: everything that must hold.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
RAY := .venv/.ray

.PHONY: demo test lint bench docs clean

demo: $(STAMP)
	$(BIN)/belated run paper-grid --seeds 3

test: $(STAMP) $(RAY) lint
	$(BIN)/python -m pytest -n 2

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

docs: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs out/docs
	@echo "Documentation: out/docs/index.html"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,lab]"
	touch $(STAMP)

$(RAY): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[ray]"
	touch $(RAY)

clean:
	rm -rf .venv out
