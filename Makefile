# make test     everything, on a fresh machine: makes its own environment, installs, runs
# make demo     an agent falls into each kind of loop, and is stopped
# make help     what else there is

VENV   ?= .venv
PYTHON ?= python3
UV     := $(shell command -v uv 2>/dev/null)
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install test lint unit matrix stack dashboards demo example bench accuracy clean

help: ## what can be made
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
ifneq ($(UV),)
	@test -x $(BIN)/python || $(UV) venv -q --python "$(PYTHON)" $(VENV)
	@$(UV) pip install -q --python $(BIN)/python --group dev -e .
else
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1' uv
	@$(BIN)/python -m uv pip install -q --python $(BIN)/python --group dev -e .
endif
	@touch $@

install: $(STAMP) ## the environment in .venv, with everything that development needs

test: lint unit matrix ## everything; what needs a collector or Prometheus is skipped where those are not installed

lint: $(STAMP) ## ruff, mypy --strict, the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.11 dashboards
	$(BIN)/mypy --python-version 3.11 -p tests.stack
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m dashboards.build --check

unit: $(STAMP) ## the tests that run in .venv, with coverage
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest --cov --cov-report=term:skip-covered -q

matrix: $(STAMP) ## each framework, oldest and newest version, in environments of their own
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/instrumentation/frameworks/run_matrix

stack: ## installs what the tests of the collector and Prometheus run (Debian; needs Go)
	.ci/stack

dashboards: $(STAMP) ## dashboards, alert rules and provisioning from their sources
	$(BIN)/python -m dashboards.build

demo: $(STAMP) ## an agent falls into each kind of loop, and is stopped
	@$(BIN)/otel-loopguard demo

example: $(STAMP) ## a LangGraph program, guarded from process start; nothing of ours is in it
	@OTEL_TRACES_EXPORTER=none OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none \
	  $(BIN)/opentelemetry-instrument $(BIN)/python examples/langgraph_agent.py

bench: $(STAMP) ## the budgets, measured side by side
	$(BIN)/python -m benchmarks

accuracy: $(STAMP) ## docs/accuracy.md, measured anew on the recorded runs
	$(BIN)/python -m benchmarks.accuracy

clean: ## removes the environments and what tests left
	rm -rf $(VENV) .envs .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
