# `make` lists what there is.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv

# Hundreds of Python processes are started by tests and demo: they keep what they have compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup java demo test check fmt lint type layers site sizes unit integration chaos evidence bench lock clean dist changelog

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready java host ## make .venv with everything in it, and .venv/bin/fencepost

java: $(VENV)/.ready
	@$(PY) -c "import sys; from fencepost.embedded.java import main; sys.exit(main())"

# The classes of the host of Java plug-ins. Without a JDK everything else works.
.PHONY: host
host: $(VENV)/.ready java
	@$(PY) -m fencepost.builtin.java.host_jar

$(VENV)/.ready: requirements.lock pyproject.toml
	@test -x $(UV) || { python3 -m venv $(VENV) && $(VENV)/bin/pip install -q uv==0.13.8; }
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip install -q --require-hashes -r requirements.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip install -q --no-deps -e .
	@touch $@

lock: ## renew requirements.lock, and that of the image (pinned, with hashes), from pyproject.toml
	$(UV) pip compile -q --universal --all-extras --generate-hashes --no-header --group dev --group demo pyproject.toml -o requirements.lock
	$(UV) pip compile -q --universal --extra all --generate-hashes --no-header --no-annotate -c requirements.lock pyproject.toml -o deploy/container/requirements.lock

demo: setup ## move real data exactly once through crashes and print the ledger
	$(PY) -m demo

check: fmt-check lint type layers sizes site unit ## format, lint, types, import layers, sizes, the site, unit tests

fmt: setup ## format the code
	$(VENV)/bin/ruff format src tests demo bench && $(VENV)/bin/ruff check --fix -q src tests demo

.PHONY: fmt-check
fmt-check: setup
	$(VENV)/bin/ruff format --check src tests demo bench

lint: setup ## ruff
	$(VENV)/bin/ruff check src tests demo bench

type: setup ## mypy, strict
	$(VENV)/bin/mypy && $(VENV)/bin/mypy bench

layers: setup ## import layers
	$(VENV)/bin/lint-imports

# Not with -q, which would count no warnings, so that none were an error.
site: setup ## the documentation as a site, for `fencepost docs`; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build

sizes: setup ## how large classes, functions and files may be
	$(PY) -m tests.sizes

# Tests of the pages that only read and check types.
TEXTS := tests/docs/test_docstrings.py tests/docs/test_figures.py tests/docs/test_kips.py tests/docs/test_names_of_tests.py tests/docs/test_pages.py tests/docs/test_release.py tests/docs/test_types.py
unit: setup ## unit tests, and what the pages say: no network, no Spark
	$(VENV)/bin/pytest -q -n 2 tests/unit $(TEXTS)

integration: setup ## tests with the real broker and real Spark
	$(VENV)/bin/pytest -q tests/conformance tests/integration

# All share the cores, what measures how long a recovery takes, too: its limits hold beside others. One process runs the
# campaigns of faults, each of which takes both cores, and one begins with the last files, which compute
# (tests/support/both_ends.py). With three processes, two cores were idle for a fifth of the time; with four they never are.
# Of most directories a part is drawn (tests/support/drawn.py). The unit tests are in `make check`.
SHARED := tests/chaos tests/planted tests/model tests/integration tests/conformance tests/docs
# The archive of Spark's classes takes long if it is made beside tests, all of which wait for it. Meanwhile the tests and
# PySpark are compiled: each process would do that for itself.
test: setup ## what needs real parts: faults, planted bugs, model, integration, conformance, docs
	@($(VENV)/bin/pytest -q --collect-only $(SHARED) > /dev/null; $(PY) -m tests.support.spark_python) & \
		$(PY) -m fencepost.spark.session.archive_making; wait
	$(VENV)/bin/pytest -q -n 4 --dist loadfile --no-loadscope-reorder $(addprefix --ignore=,$(TEXTS)) $(SHARED)

bench: setup ## race Kafka Connect on this machine, under an hour; writes docs/explanation/benchmarks.md
	$(PY) -m bench

EVIDENCE := build/evidence
chaos: setup ## the long faults, recorded; the long forms of what a cluster does; turns with Kafka Connect
	FENCEPOST_EVIDENCE=$(EVIDENCE) FENCEPOST_CHAOS=long $(VENV)/bin/pytest -q tests/chaos
	FENCEPOST_CHAOS=long $(VENV)/bin/pytest -q tests/unit
	FENCEPOST_CHAOS=long $(VENV)/bin/pytest -q tests/planted tests/model tests/integration tests/conformance tests/docs
	$(PY) tests/oracle/live_handover.py
	$(PY) -m tests.floor
	$(PY) -m tests.floor --spark 4.2

# A tree without a JDK has no host.jar; a release must have it. The pages come along (`fencepost docs`).
dist: setup site ## the sdist and the wheel of a release, in dist
	@test -s src/fencepost/builtin/java/host.jar || { echo "there is no host.jar: a release is built where there is a JDK"; exit 1; }
	@rm -rf dist
	$(UV) build

changelog: setup ## what changes/ will add to CHANGELOG.md
	$(VENV)/bin/towncrier build --draft --version "$$($(VENV)/bin/fencepost --version)"

evidence: setup ## docs/explanation/evidence.md from the records of `make chaos`
	$(PY) -m tests.evidence $(wildcard $(EVIDENCE))

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
