# Everything a contributor runs. Needs only python3 (3.11 or newer); the rest goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-from-lock
# Many tests wait, for Kafka and for processes: four processes keep two cores at work.
# One process: make test PROCESSES=0
PROCESSES ?= 4
# Which quarter of the slow tests the gate runs: a number from 0 to 3. All: make test-gate TURN=
TURN ?= commit
# Tests that go through the hot path, and those that look into its functions, which only the Python form allows.
HOT := tests/unit/protocol tests/unit/worker tests/unit/test_scheduler.py tests/contracts tests/conformance tests/rules tests/simulation tests/crashes tests/architecture/test_entries.py
TESTS := $(BIN)/python -m pytest -n $(PROCESSES) --dist loadscope --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup form demo demo-console screenshots test test-gate test-all test-form test-pure chaos chaos-poison chaos-resend chaos-speakers chaos-remote chaos-cluster chaos-spark soak leaks hostile bench bench-all pace mutate compile wheels lint types check docs lock clean

help: ## Show this help
	@echo "make <target>:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: form ## Make .venv from the locks, and compile the hot path if there is a C compiler (done by itself when a target needs it)

form: $(STAMP)
	@$(BIN)/python wheels/build.py --if-possible

demo: form ## Start a broker and watch two services talk
	$(BIN)/conversations demo

demo-console: form ## The same, but you give the held flights back yourself, in the web console
	$(BIN)/conversations demo --console

screenshots: $(STAMP) ## Write a picture of every page of the web console into build/screenshots (needs Chromium; minutes)
	$(BIN)/python docs/make_screenshots.py

test: $(STAMP) ## Run the quick tests (minutes), on a real Kafka and a real Spark; the first run fetches their jars
	$(TESTS) -m "not slow and not long"

test-gate: form ## Run the tests of the gate, in the compiled form if there is a C compiler: the quick ones, the demo, and a quarter of the slow ones, which depends on the commit (half an hour)
	$(TESTS) -m "not long" --turn "$(TURN)" --durations 25

test-all: form ## Run every test, also the short forms of all chaos runs and soaks (more than an hour)
	$(TESTS) --durations 25

test-form: $(STAMP) ## Run, in the Python form, only the tests that a run of the compiled form skips (minutes)
	CONVERSATIONS_PURE=1 $(TESTS) $(HOT) tests/slow_handlers --python-form

test-pure: $(STAMP) ## Run the tests of the hot path in the Python form (minutes)
	CONVERSATIONS_PURE=1 $(TESTS) $(HOT)

chaos: form ## Kill, freeze and replace workers, spoil the wire, and prove that nothing is lost (minutes)
	$(BIN)/python -m tests.chaos --audit

chaos-poison: form ## The same with messages that fail, under every policy, and operators who decide about them (minutes)
	$(BIN)/python -m tests.chaos --messages 100000 --poison 0.05 --audit

chaos-resend: form ## Break dialogs up to four times while workers are killed: what was not accepted is sent again, once, in order (minutes)
	$(BIN)/python -m tests.chaos.resend --audit

chaos-speakers: form ## A web hook, a terminal and a handler speak at once on the same dialogs while workers are killed (minutes)
	$(BIN)/python -m tests.chaos.speakers

chaos-remote: form ## Let dialogs cross two clusters over a network that loses and repeats, while workers, forwarders and brokers are killed (minutes)
	$(BIN)/python -m tests.chaos.remote

chaos-cluster: form ## Break three brokers, the network between all, local copies and clocks, with Spark beside it (minutes)
	$(BIN)/python -m tests.chaos.cluster

chaos-spark: $(STAMP) ## Kill the drivers of the archive and of speak ten times each, and compare what is there (minutes)
	$(BIN)/python -m tests.spark.chaos_archive
	$(BIN)/python -m tests.spark.chaos_speak

soak: form ## Live through two weeks in half an hour, all periods shortened alike: nothing may die or grow
	$(BIN)/python -m tests.soak

leaks: form ## End 200,000 dialogs in every way, in memory, and prove that no row is left and none begins again (minutes)
	$(BIN)/python -m tests.leaks

hostile: form ## Let a peer that may write one queue do its worst beside honest dialogs: right, bounded, and what it costs (minutes)
	$(BIN)/python -m tests.hostile

bench: form ## Measure throughput and latency beside the bare loop, Kafka Streams and Quix, in both forms; fill docs/performance.md (15 minutes)
	$(BIN)/python -m bench throughput latency

bench-all: form ## Measure everything of docs/performance.md (two hours)
	$(BIN)/python -m bench

pace: $(STAMP) ## Compare the CPU time per message with that of the commit before, and of a hundred commits ago; add the ratios to bench/pace.csv (minutes; it fails nothing)
	$(BIN)/python -m bench.revisions HEAD~1 --pairs 7 --messages 30000 --out bench/pace.csv
	$(BIN)/python -m bench.revisions HEAD~100 --pairs 5 --messages 30000 --out bench/pace.csv

mutate: $(STAMP) ## Remove each guard in a copy: exactly its test must fail (more than an hour)
	$(BIN)/python -m tests.mutations

compile: $(STAMP) ## Compile the hot path for this checkout with mypyc; fails without a C compiler (minutes)
	$(BIN)/python wheels/build.py

wheels: $(STAMP) ## Build the Python wheel, and the compiled one for this Python and this platform, into dist/
	$(BIN)/python -m hatchling build --target wheel
	CONVERSATIONS_COMPILED=1 $(BIN)/python -m hatchling build --target wheel

lint: $(STAMP) ## Check style, formatting, import contracts and that the locks are fresh
	$(BIN)/python .ci/lock.py --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP) ## Check types (mypy --strict)
	$(BIN)/mypy

check: lint types test-gate test-form ## Everything in which the gate may fail (it runs `pace` too, which fails nothing)

docs: $(STAMP) ## Write the state diagrams, and the lists of events, error codes, the doctor's checks and metrics, from the tables in the code
	$(BIN)/python docs/make_state_diagram.py
	$(BIN)/python docs/make_events.py
	$(BIN)/python docs/make_codes.py
	$(BIN)/python docs/make_doctor.py
	$(BIN)/python docs/make_metrics.py

lock: $(STAMP) ## Resolve the dependencies again into requirements/*.txt (needs the network)
	$(BIN)/python .ci/lock.py

clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A new virtual environment when the lock changes; a changed pyproject.toml only refreshes the editable install.
$(STAMP): requirements/dev.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: '$(PYTHON)' not found; install Python 3.11 or newer, or run: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1); run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: this Python cannot make virtual environments; install its venv package (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
