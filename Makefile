# The verbs a person types. Each sets itself up: Python 3.11 or newer is all that has to be there.
SHELL  := bash
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
# The newest interpreter that is new enough; `make PYTHON=/path/to/python test` overrides.
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

LONG_TRIALS := tests/interop/test_churn.py tests/interop/test_convergence.py
TRIALS := tests/interop/test_mixed_groups.py tests/interop/test_broker_trouble.py $(LONG_TRIALS)

.DEFAULT_GOAL := help
.PHONY: help demo test browser check bench interop sim chaos fuzz docs dist clean

help:  ## print these verbs
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

demo: $(READY)  ## the shop window: a group that balances itself while members are killed, a broker is slow, and Spark reads along
	@$(PY) -m steelyard.cli.demo

test: check  ## ruff, mypy strict and the whole suite
	@$(PY) -m pytest -n auto --dist loadgroup

browser: $(READY)  ## the page in real Chromium; Debian's is installed where it is missing and may be
	@$(PY) -m tests.browser.chromium
	@$(PY) -m pytest -n auto --dist loadgroup tests/browser

check: $(READY)  ## ruff and mypy strict alone
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

bench: $(READY)  ## ratios measured side by side in one run; leave the machine alone meanwhile
	@$(PY) -m bench

fuzz: $(READY)  ## 20,000 broken inputs for every reader of foreign bytes
	@STEELYARD_FUZZ=20000 $(PY) -m pytest -n auto -m fuzz tests

interop: $(READY)  ## Apache's Java classes and servers, and clients in Java, Go and Node, as tests of ours (needs a JDK 17 and Maven)
	@$(PY) -m tests.interop.jars
	@$(PY) -m tests.interop.guests
	@$(PY) -m pytest tests/interop
	@STEELYARD_INTEROP=apache-4.9.7 $(PY) -m pytest $(TRIALS)
	@STEELYARD_LIVE=apache-4.9.7 $(PY) -m pytest tests/cli/test_sessions.py
	@for backend in apache-4.9.7 apache-5.5.0; do STEELYARD_LIVE=$$backend $(PY) -m pytest tests/live tests/spark tests/browser || exit; done

sim: $(READY)  ## 10,000 simulated histories, with crashes, cuts and lost power, then a hunt for planted bugs (takes a while; a failure is replayed by its seed)
	@$(PY) -m steelyard sim --histories 10000
	@$(PY) -m steelyard sim --hunt

chaos: $(READY)  ## the long trials: every disk call fails in every way, power losses, a broker killed 200 times, Spark's driver 12 times, 100,000 messages while members come and go (takes a while)
	@STEELYARD_STORE=long $(PY) -m pytest -n auto --timeout=0 tests/store
	@STEELYARD_KILLS=200 $(PY) -m pytest -rP tests/serve/test_kill.py
	@STEELYARD_DRIVER_KILLS=8 STEELYARD_SLOW=1 $(PY) -m pytest -rP tests/spark/trials tests/pipelines/test_declarative.py
	@STEELYARD_CHURN=100000 STEELYARD_CHANGES=100 STEELYARD_INTEROP=ours,apache-4.9.7 $(PY) -m pytest -rP $(LONG_TRIALS)

docs: $(READY)  ## the documentation site, into site/
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@$(PY) -m mkdocs build --strict

dist: $(READY)  ## the wheel and the sdist, in dist/
	@rm -rf dist
	@$(PY) -m build --no-isolation

clean:  ## remove what the verbs made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Steelyard needs Python 3.11 or newer and found none; install it, or run: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
