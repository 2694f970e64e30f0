# The verbs a person types. Each sets itself up: Python 3.11 or newer is all that has to be there.
SHELL := bash
# Hundreds of interpreters are started in the course of a test run: bytecode that is not kept is compiled by each of them.
unexport PYTHONDONTWRITEBYTECODE
# The newest interpreter that the suite is run on, or any that is new enough; `make PYTHON=/path/to/python test` overrides.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python python3.14; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VERSION := $(if $(PYTHON),$(shell $(PYTHON) -c 'import platform; print(platform.python_version())'))

# .venv has what the verbs so far have needed; mypy has an environment of its own, where it sees the same in every tree.
VENV := .venv
PY   := $(VENV)/bin/python
LINT := .venv-lint
# A stamp says which dependency group is installed, for which Python: another Python, and the environment is made anew.
ready = $(VENV)/.$(1)-$(VERSION)
UV := $(shell command -v uv)
# Bytecode is written when a module is first imported: most of what is installed never is.
install = $(if $(UV),uv pip install --quiet --python $(1)/bin/python,$(1)/bin/python -m pip install --quiet --upgrade pip && $(1)/bin/python -m pip install --quiet --no-compile) -c constraints.txt

# Tests wait now and then, so there are more workers than cores.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')
UNIT := not spark and not process and not thorough
LOWEST := not java and not process and not thorough
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist loadgroup

LONG_TRIALS := tests/interop/test_churn.py tests/interop/test_convergence.py
TRIALS := tests/interop/test_mixed_groups.py tests/interop/test_broker_failures.py tests/interop/test_java_groups.py \
	tests/interop/test_our_warnings.py $(LONG_TRIALS)

.DEFAULT_GOAL := help
.PHONY: help demo test compiled check lint unit pythons lowest browser bench fuzz interop sim chaos docs dist clean

help:  ## print these verbs
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

demo: $(call ready,demo)  ## a consumer group rebalances while members are killed, a broker is slow, and Spark reads along
	@$(PY) -m examples.demo

test:  ## ruff, mypy strict and the whole suite: all that a newcomer needs to be convinced
	@$(MAKE) --no-print-directory -j2 lint compiled
	@$(PYTEST)

# Collecting the tests once leaves bytecode for all workers, which would else compile the same files side by side.
compiled: $(call ready,whole)
	@$(PY) -m pytest --collect-only -qq > /dev/null

check: lint unit  ## the inner loop: ruff, mypy strict, and the quick tests: without Spark, processes of their own and the most thorough ones

lint: $(LINT)/.ready-$(VERSION)  ## ruff and mypy strict alone
	@$(LINT)/bin/ruff check .
	@$(LINT)/bin/ruff format --check .
	@$(LINT)/bin/zizmor --quiet --offline --no-progress --strict-collection --persona pedantic .github
	@$(LINT)/bin/mypy

unit: $(call ready,test)  ## the tests of `make check` alone
	@$(PYTEST) -m '$(UNIT)'

pythons:  ## the tests of `make check` on every Python 3.11 and newer that is found here
	@pythons=$$($(PYTHON) .ci/pythons) && test -n "$$pythons" || { echo ".ci/pythons found no Python to test with" >&2; exit 1; }; \
	for python in $$pythons; do \
		version=$$($$python -c 'import platform; print(platform.python_version())'); echo "== $$python ($$version)"; \
		$(MAKE) --no-print-directory PYTHON=$$python VENV=.venv-$$version unit || failed="$$failed $$version"; \
	done; test -z "$$failed" || { echo "failed on$$failed" >&2; exit 1; }

lowest:  ## the tests of `make check`, and those with Spark's packages that need no Java, with the lowest versions that pyproject.toml allows (needs uv)
	@test -n "$(UV)" || { echo "make lowest needs uv: pip install uv" >&2; exit 1; }
	@uv venv --quiet --clear --python $(PYTHON) .venv-lowest
	@uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct -e '.[all,pipelines]' --group tools
	@.venv-lowest/bin/python -m pytest -n $(WORKERS) --dist loadgroup -m '$(LOWEST)'

browser: $(LINT)/.ready-$(VERSION) $(call ready,browser)  ## the page in real Chromium, and its scripts linted where npm is; Debian's is installed where it is missing and may be
	@$(LINT)/bin/mypy --python-executable $(PY) tests/browser/*.py
	@$(PY) -m tests.browser.scripts $(LINT)/node
	@$(PY) -m tests.browser.chromium
	@$(PYTEST) tests/browser

bench: $(call ready,whole)  ## ratios measured side by side in one run; leave the machine alone meanwhile
	@$(PY) -m bench

fuzz: $(call ready,test)  ## 20,000 broken inputs for every reader of foreign bytes
	@STEELYARD_FUZZ=20000 $(PYTEST) --timeout=0 -m fuzz

interop: $(call ready,whole) $(call ready,browser)  ## Apache's Java classes and servers, and clients in Java, Go and Node, as tests of ours (needs a JDK 17 and Maven)
	@$(PY) -m tests.interop.jars
	@$(PY) -m tests.interop.guest_clients
	@$(PY) -m pytest tests/interop
	@STEELYARD_INTEROP=apache-4.9.7 $(PY) -m pytest $(TRIALS)
	@STEELYARD_LIVE=apache-4.9.7 $(PY) -m pytest tests/cli/test_sessions.py
	@for backend in apache-4.9.7 apache-5.5.0; do STEELYARD_LIVE=$$backend $(PY) -m pytest tests/live tests/spark tests/browser || exit; done

sim: $(call ready,test)  ## 10,000 simulated histories with crashes, cuts and power losses, then a hunt for planted bugs (takes a while; a failure is replayed by its seed)
	@STEELYARD_SLOW=1 $(PY) -m pytest tests/simulator/test_planned_churn.py tests/simulator/test_bounds.py
	@$(PY) -m simulator --histories 10000
	@$(PY) -m simulator --hunt

chaos: $(call ready,whole)  ## the long trials: every disk call fails in every way, power losses, full file systems (needs root), a broker killed 200 times and flooded, Spark's driver 12 times, 100,000 messages while members come and go, and members that hang on Apache's brokers, 30 times in each way (takes a while)
	@STEELYARD_STORE=long $(PYTEST) --timeout=0 tests/store
	@STEELYARD_KILLS=200 $(PY) -m pytest -rP tests/serve/test_kill.py
	@STEELYARD_MOUNTS=1 $(PY) -m pytest -rP tests/serve/test_full_disks.py
	@STEELYARD_SLOW=1 $(PY) -m pytest -rP tests/serve/test_floods.py
	@STEELYARD_DRIVER_KILLS=8 STEELYARD_SLOW=1 $(PY) -m pytest -rP tests/spark/trials tests/pipelines/test_declarative.py tests/examples/test_demo.py tests/cli/test_pipeline.py
	@STEELYARD_SLOW=1 $(PY) -m pytest tests/packaging tests/docs/test_tutorial.py tests/client/test_memory.py
	@STEELYARD_CHURN=100000 STEELYARD_CHANGES=100 STEELYARD_INTEROP=ours,apache-4.9.7 $(PY) -m pytest -rP $(LONG_TRIALS)
	@STEELYARD_TRIALS=30 $(PY) -m pytest -rP tests/interop/test_hung_members.py

docs: $(call ready,whole) $(call ready,docs)  ## the documentation site, into site/
	@$(PY) -m tests.docs.generate
	@$(PY) -m mkdocs build --strict

dist: $(call ready,dist)  ## the wheel and the sdist, in dist/
	@rm -rf dist
	@$(PY) -m build --no-isolation

clean:  ## remove what the verbs made
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build site
	find src simulator tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

define environment
@test -n "$(VERSION)" || { echo "Steelyard needs Python 3.11 or newer and found none; install it, or run: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
@echo "setting up $(1) with Python $(VERSION)"
@$(PYTHON) -m venv --clear $(1) || { echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
@touch $@
endef

$(VENV)/.python-$(VERSION):
	$(call environment,$(VENV))

$(LINT)/.python-$(VERSION):
	$(call environment,$(LINT))

$(VENV)/.%-$(VERSION): pyproject.toml constraints.txt | $(VENV)/.python-$(VERSION)
	@echo "installing the dependency group '$*'"
	@$(call install,$(VENV)) --group $* -e .
	@touch $@

$(LINT)/.ready-$(VERSION): pyproject.toml constraints.txt | $(LINT)/.python-$(VERSION)
	@echo "installing the dependency group 'lint'"
	@$(call install,$(LINT)) --group lint -e .
	@$(call install,$(LINT)) --no-deps pyspark-client
	@touch $@
