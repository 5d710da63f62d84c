# make demo: mails whose purchases come late, then the paper's experiment.  make test: the gate.  make quick: most of it.
# make test-all: the gate, and whatever takes long or needs large packages.
#
# make test PYTHON=python3.12 makes and uses .venv-3.12; without PYTHON it is python3 and .venv.
# make serve: the learner service with three learners to try, one with simulated customers, on port 8571; SERVE=my.toml for your own.
# make bench BENCH="passes --compare before.json" hands options to benchmarks/run.py.
ifeq ($(origin PYTHON), undefined)
PYTHON := python3
VENV ?= .venv
else
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(VERSION),)
$(error PYTHON must be an interpreter that runs, got $(PYTHON))
endif
VENV ?= .venv-$(VERSION)
endif
BIN := $(VENV)/bin
# The isolated build of this package takes its hatchling from constraints.txt too; older and newer
# versions of pip read the one or the other variable.
PIP := PIP_CONSTRAINT="$(CURDIR)/constraints.txt" PIP_BUILD_CONSTRAINT="$(CURDIR)/constraints.txt" \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
INSTALL := $(PIP) --constraint constraints.txt
# Bytecode is kept even where the caller's environment says otherwise: tests start many processes, and
# each would parse all packages anew.
export PYTHONDONTWRITEBYTECODE :=
# Three workers on two cores: many tests wait for processes that they start, and each worker imports and
# collects everything once more.
WORKERS ?= 3
LEAST := .venv-minimum
MADE := $(VENV)/.made
CORE := $(VENV)/.core
LAB := $(VENV)/.lab
SERVICE := $(VENV)/.serve
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
ALL := $(VENV)/.all
# Kernels are compiled, so coverage sees them only where they are run as plain Python, slowly.
PLAIN := tests/tabular/kernels tests/tabular/parts tests/tabular/oreps tests/tabular/test_oppo_known.py \
	tests/tabular/test_oppo_unknown.py tests/tabular/test_ucbvi.py tests/tabular/test_counts.py \
	tests/tabular/test_planning.py tests/test_simulation.py \
	--deselect tests/tabular/oreps/test_projection.py::test_a_learner_with_unknown_transitions

.PHONY: demo serve test tests kernels collection test-all all-tests test-browser quick minimum lint coverage bench docs clean

demo: $(LAB)
	$(BIN)/python examples/mailer.py --seeds 2
	$(BIN)/belated run demo

serve: $(SERVICE)
	$(BIN)/belated serve $(SERVE)

# Workers share the cores: threads of BLAS in each of them would wait for one another.
ALONE = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

# Two jobs at a time, so that both cores work: kernels compile while packages are installed, and lint runs
# beside the tests.
test:
	$(MAKE) --jobs 2 --keep-going tests lint

tests: $(DEV) kernels collection
	$(ALONE) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long" --durations 10 --durations-min 5

# Kernels are compiled once, before the workers start; each of them would compile its own otherwise.
kernels: $(CORE)
	$(BIN)/python tests/warm.py

# The same for the bytecode of tests and packages.
collection: $(DEV)
	@$(BIN)/python -m pytest --collect-only --quiet > $(VENV)/collected || (cat $(VENV)/collected && false)

test-all: $(ALL)
	$(MAKE) --jobs 2 --keep-going all-tests lint

all-tests: $(ALL) kernels collection
	BELATED_FULL_TESTS=1 $(BIN)/python -m pytest -n $(WORKERS)

# Pages, figures and reports in a browser, and fonts as pdffonts sees them; both are installed first
# (Debian's packages).
test-browser: $(ALL)
	(command -v chromium && command -v pdffonts) || (apt-get update && \
		apt-get install --yes --no-install-recommends chromium poppler-utils)
	$(BIN)/python -m pytest tests/service/test_page.py tests/lab/test_looks.py

quick: $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not long"

# The quick tests with the least versions that pyproject.toml allows of what is needed to run. Old
# packages use what newer ones below them call deprecated.
minimum:
	$(PYTHON) -m venv $(LEAST)
	PIP_BUILD_CONSTRAINT="$(CURDIR)/constraints.txt" \
		$(LEAST)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-minimum.txt --editable ".[dev,lab]"
	$(LEAST)/bin/python -m pytest -n 2 -m "not slow and not long" -W ignore::DeprecationWarning

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

coverage: $(ALL)
	$(BIN)/python -m pytest -n 2 -m "not slow and not long" --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 -m "not slow and not long" --cov --cov-append $(PLAIN)

bench: $(DEV)
	$(BIN)/python benchmarks/run.py $(BENCH)

docs: $(DOCS)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs out/docs
	@echo "Documentation: out/docs/index.html"

$(MADE):
	$(PYTHON) -m venv $(VENV)
	touch $@

# What kernels need to compile: the dependencies of this package, without the package.
$(CORE): $(MADE) pyproject.toml constraints.txt
	$(INSTALL) $$($(BIN)/python tools/needed.py)
	touch $@

$(LAB): $(MADE) pyproject.toml constraints.txt
	$(INSTALL) --editable ".[lab]"
	touch $@

$(SERVICE): $(MADE) pyproject.toml constraints.txt
	$(INSTALL) --editable ".[serve]"
	touch $@

$(DEV): $(CORE)
	$(INSTALL) --editable ".[dev]"
	touch $@ $(LAB) $(SERVICE)

$(DOCS): $(MADE) pyproject.toml constraints.txt
	$(INSTALL) --editable ".[docs,gymnasium,lab,serve]"
	touch $@ $(LAB) $(SERVICE)

$(ALL): $(MADE) pyproject.toml constraints.txt
	$(INSTALL) --editable ".[all]"
	$(INSTALL) --no-deps lifelines obp scikit-survival  # their data alone; they ask for older packages
	touch $@ $(CORE) $(DEV) $(DOCS) $(LAB) $(SERVICE)

clean:
	rm -rf .venv .venv-* out
