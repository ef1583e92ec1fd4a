# `make` lists the targets. Everything lives in .venv; nothing is installed elsewhere.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
ARGS ?=
# several at a time, file by file, the longest first; one more than there are cores, for some of the time is waiting for servers
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
AT_ONCE := --dist loadfile --no-loadscope-reorder -n $(or $(JOBS),$(shell echo $$(( $(CORES) < 8 ? $(CORES) + 1 : 8 ))))
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1

.PHONY: help up cluster test test-cluster test-page check lint eval eval-stores bench bench-cluster chaos lock schemas clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Cortex needs Python 3.11 or later: make PYTHON=python3.11 ..."; exit 1; }
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing pinned packages into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --no-index -e .
	@touch $@

up: $(READY) ## start Cortex on embedded defaults with the sample company, and serve
	@$(BIN)/cortex up --company $(ARGS)

cluster: $(READY) ## start Kafka, Weaviate and Redis on this machine (needs java 17, maven, go)
	@$(BIN)/cortex cluster $(ARGS)

test: $(READY) ## run all tests (real broker, cache and processes on loopback)
	@$(BIN)/python -m pytest $(AT_ONCE) $(ARGS)

test-cluster: $(READY) ## run the broker's tests on Apache Kafka, and Weaviate's (needs java 17, maven, go)
	@for tool in java:openjdk-17-jre-headless mvn:maven "go:golang (1.21 or later)"; do \
		command -v $${tool%%:*} >/dev/null || { echo "$${tool%%:*} is not installed: apt-get install $${tool#*:}"; exit 1; }; done
	@$(BIN)/python -m tests.on_cluster $(AT_ONCE) -m "broker or cluster" tests/contract tests/integration tests/e2e $(ARGS)

test-page: $(READY) ## drive the page in Chromium (needs chromium, node 20 and npm)
	@for tool in chromium node npm; do command -v $$tool >/dev/null || { echo "$$tool is not installed: apt-get install chromium nodejs npm"; exit 1; }; done
	@npm ci --silent --prefix tests/page
	@$(BIN)/python -m pytest -m page tests/page -q -n 2 $(ARGS)

check: lint ## lint, then unit and contract tests: before every commit
	@$(BIN)/python -m pytest -q $(AT_ONCE) tests/unit tests/contract

lint: $(READY) ## format, lint, import contracts, types
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --diff . ; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-cache > $(VENV)/lint-imports.log 2>&1 || { cat $(VENV)/lint-imports.log; exit 1; }
	@$(BIN)/mypy

eval: $(READY) ## answer quality on the evaluation sets, beside baselines of the same run
	@$(BIN)/python -m tests.eval $(ARGS)

eval-stores: $(READY) ## the same questions on SQLite and on Weaviate (needs go at the first time)
	@$(BIN)/python -m tests.eval.stores $(ARGS)

bench: $(READY) ## latency, throughput and memory, beside the floor of the same run
	@$(BIN)/python -m tests.bench $(ARGS)

bench-cluster: $(READY) ## the same on Kafka, Weaviate and Redis (needs java 17, maven, go)
	@$(BIN)/python -m tests.bench.cluster $(ARGS)

chaos: $(READY) ## kill processes while 10,000 events are handled, and compare (on Kafka too: java 17, maven)
	@$(BIN)/python -m tests.chaos $(ARGS)

schemas: $(READY) ## export the JSON Schemas
	@$(BIN)/python -m schemas.export

lock: ## pin all packages by hash (needs uv)
	@uv pip compile pyproject.toml --group test --group build --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header --quiet --output-file requirements.lock
	@uv pip compile pyproject.toml --extra weaviate --extra otel --constraint requirements.lock --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --output-file compose/docker/requirements.lock
	@uv pip compile --group build --constraint requirements.lock --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --output-file compose/docker/build.lock

clean: ## remove the environment and the data folder
	@rm -rf $(VENV) .cortex
