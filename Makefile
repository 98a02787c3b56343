# make test     run everything on a fresh machine: create the environment, install, test
# make demo     show agents in loops being stopped
# make help     list the other targets

VENV   ?= .venv
PYTHON ?= python3
UV     := $(shell command -v uv 2>/dev/null)
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Tests start hundreds of programs. Each would compile its modules again where the environment forbids to keep them.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install test lint unit coverage matrix pythons release site stack dashboards demo example bench accuracy clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
ifneq ($(UV),)
	@test -x $(BIN)/python || $(UV) venv -q --python "$(PYTHON)" $(VENV)
	@$(UV) pip install -q --python $(BIN)/python --group dev --group docs -e .
else
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1' uv
	@$(BIN)/python -m uv pip install -q --python $(BIN)/python --group dev --group docs -e .
endif
	@touch $@

install: $(STAMP) ## create .venv with everything for development

test: lint unit matrix ## run everything; tests of the collector and Prometheus are skipped if these are not installed

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
# threads.
WORKERS := $(shell $(PYTHON) -c "import os; print(min(os.cpu_count() + 1, 8))")

unit: $(STAMP) ## run the tests of .venv, a file in each process
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
	  -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

coverage: $(STAMP) ## run the tests of .venv and list the lines that none reaches; takes three times as long
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -q --cov --cov-report=term:skip-covered

matrix: $(STAMP) ## test each framework's oldest and newest version, and each Python, in separate environments
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/run_matrix

pythons: $(STAMP) ## run all tests but those of the stack and the report in each supported Python on PATH or in pyenv
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/run_matrix --pythons

release: $(STAMP) ## build the release of the commit into dist/ and check it; publishes nothing
	PATH="$(CURDIR)/$(BIN):$$PATH" .ci/release

site: $(STAMP) ## build the documentation as a site into _build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

stack: ## install the collector and Prometheus for the tests (Debian; needs Go)
	.ci/stack

dashboards: $(STAMP) ## generate dashboards, alert rules and provisioning
	$(BIN)/python -m dashboards.build

demo: $(STAMP) ## show agents in loops being stopped
	@$(BIN)/otel-loopguard demo

example: $(STAMP) ## run a LangGraph program that is guarded from process start, unchanged
	@OTEL_TRACES_EXPORTER=none OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none \
	  $(BIN)/opentelemetry-instrument $(BIN)/python examples/langgraph_agent.py

bench: $(STAMP) ## measure docs/performance.md: time and memory beside bare spans and other instrumentations
	$(BIN)/python -m benchmarks.performance

accuracy: $(STAMP) ## measure docs/accuracy.md: decisions on recorded runs and on drawn agents
	$(BIN)/python -m benchmarks.accuracy

clean: ## remove the environments and the files of tests
	rm -rf $(VENV) .envs .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis _build build dist
