# make studio    set up once, fetch the parts, start the app
# make test      set up what the tests need (Chromium too) and run them
# make bench     print the benchmarks' ratios
# make notebooks open JupyterLab
# make docs      execute the notebooks and write them as pages that open without a network (build/docs)

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test

.PHONY: studio test bench notebooks docs parts clean

studio: $(STAMP)
	@$(PY) -m studio

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "LEO Studio needs Python 3.10 or newer; this is $$($(PYTHON) --version). Set PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "This Python has no venv module: install it (Debian and Ubuntu: apt install python3-venv) and run make again."; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $(STAMP)

$(TEST_STAMP): $(STAMP)
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[test,train]"
	@touch $(TEST_STAMP)

parts: $(STAMP)
	@$(PY) -m leo_core parts --fetch

test: $(TEST_STAMP)
	@sh tests/chromium.sh $(PY)
	@$(PY) -m leo_core parts --fetch
	$(PY) -m pytest

bench: $(TEST_STAMP)
	@for file in tests/bench/bench_*.py; do echo "== $$file"; $(PY) $$file || exit 1; done

notebooks: $(STAMP)
	@$(PY) -m jupyter lab notebooks/index.ipynb

docs: $(TEST_STAMP)
	@sh tests/chromium.sh $(PY)
	@$(PY) -m leo_core parts --fetch
	@$(PY) -m studio.docs

clean:
	rm -rf $(VENV) build *.egg-info
