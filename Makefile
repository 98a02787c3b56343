# make demo     show agents in loops being stopped; installs the package alone
# make check    linters, types and the core's tests: create the environment, install, check
# make test     run everything on a fresh machine
# make help     list the other targets

VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   := .envs/demo
# uv asks the index that pip asks, and trusts the certificates that pip trusts.
AS_PIP := .ci/as-pip
INSIDE  = $(AS_PIP) env PATH="$(CURDIR)/$(BIN):$$PATH"
PYTEST  = $(INSIDE) $(BIN)/python -m pytest

# Tests start hundreds of programs. Each would compile its modules again where the environment forbids to keep them.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install check test needs lint core unit coverage matrix pythons release site stack dashboards demo example bench accuracy clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# $(call environment,FOLDER,PACKAGES): without uv, pip installs it into the environment.
ifneq ($(shell command -v uv 2>/dev/null),)
define environment
	@test -x $(1)/bin/python || $(AS_PIP) uv venv -q --python "$(PYTHON)" $(1)
	@$(AS_PIP) uv pip install -q --python $(1)/bin/python $(2)
	@touch $@
endef
else
define environment
	@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install -q --disable-pip-version-check uv
	@$(AS_PIP) $(1)/bin/python -m uv pip install -q --python $(1)/bin/python $(2)
	@touch $@
endef
endif

$(STAMP): pyproject.toml
	$(call environment,$(VENV),--group dev --group docs -e .)

$(DEMO)/.installed: pyproject.toml
	$(call environment,$(DEMO),-e .)

install: $(STAMP) ## create .venv with everything for development

CORE := engine/test_decide.py engine/test_fold.py engine/test_state.py engine/test_compiled.py engine/test_canonical_traces.py \
  guard/test_guard.py policy_files test_public_api.py test_house_rules.py

check: lint core ## linters, types, and the tests of the core: two minutes

test: needs lint unit matrix ## run everything

needs: $(STAMP)
	@$(BIN)/python -m tests.needs

core: $(STAMP)
	$(PYTEST) -n $(WORKERS) $(addprefix tests/,$(CORE))

lint: $(STAMP) ## check with ruff, mypy --strict and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.11 dashboards
	$(BIN)/mypy --python-version 3.11 -p tests.stack
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m dashboards.build --check

# One process more than there are processors, because many tests wait for servers. In the order of their names: the files
# with the fewest tests take the longest, and would be last. A test that hangs for ten minutes fails with the stacks of all
# threads. The slowest tests are named at the end: the gate lasts as long as they do.
WORKERS := $(shell $(PYTHON) -c "import os; print(min(os.cpu_count() + 1, 8))")

unit: $(STAMP) ## run the tests of .venv, a file in each process
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 40 \
	  -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

coverage: $(STAMP) ## run the tests of .venv and list the lines that none reaches; takes three times as long
	$(PYTEST) --cov --cov-report=term:skip-covered

matrix: $(STAMP) ## test the oldest and newest version of each framework and of Python, in separate environments
	$(INSIDE) $(BIN)/python tests/run_matrix

pythons: $(STAMP) ## run all tests but those of the stack and the report in each supported Python on PATH or in pyenv
	$(INSIDE) $(BIN)/python tests/run_matrix --pythons

release: $(STAMP) ## build the release of the commit into dist/ and check it; publishes nothing
	$(INSIDE) .ci/release

site: $(STAMP) ## build the documentation as a site into _build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

stack: ## install the collector and Prometheus for the tests (Debian; needs Go)
	.ci/stack

dashboards: $(STAMP) ## generate dashboards, alert rules and provisioning
	$(BIN)/python -m dashboards.build

demo: $(DEMO)/.installed ## show agents in loops being stopped; installs the package alone
	@$(DEMO)/bin/otel-loopguard demo

example: $(STAMP) ## run a LangGraph program that is guarded from process start, unchanged
	@OTEL_TRACES_EXPORTER=none OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none \
	  $(BIN)/opentelemetry-instrument $(BIN)/python examples/langgraph_agent.py

bench: $(STAMP) ## measure docs/performance.md: time and memory beside bare spans and other instrumentations
	$(BIN)/python -m benchmarks.performance

accuracy: $(STAMP) ## measure docs/accuracy.md: decisions on recorded runs and on drawn agents
	$(BIN)/python -m benchmarks.accuracy

clean: ## remove the environments and the files of tests
	rm -rf $(VENV) .envs .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis _build build dist
