VENV ?= .venv
PY := $(VENV)/bin/python
export VENV

.PHONY: help setup browser demo test check exhaustive faults quick clean

help: ## what each target does
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

setup: ## virtual environment, container engine, sandbox base image, web client (idempotent)
	@scripts/setup.sh

browser: setup ## what the browser tests need besides: Chromium
	@scripts/web.sh browser

demo: setup ## repair a real bug of a real project, without a model
	@scripts/demo.sh

check: setup ## lint, format, types, import rules
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	scripts/web.sh check

# Timing tests share two cores with their neighbours: what failed runs once more, alone, in plain sight.
test: setup browser check ## everything: checks and all tests
	$(PY) -m pytest -n 2 --dist loadgroup --durations 25 || { \
	  echo "make test: what failed above runs once more, alone"; \
	  $(PY) -m pytest --last-failed --last-failed-no-failures none; }

exhaustive: setup browser ## all tests, with the cases that `make test` leaves out
	EXHAUSTIVE_TESTS=1 $(PY) -m pytest -n 2 --dist loadgroup --durations 25

faults: setup ## every fault of the matrix, and a kill at every boundary of a run
	EXHAUSTIVE_TESTS=1 $(PY) -m pytest -n 2 tests/faults tests/orchestrator/test_resume.py

quick: setup ## tests that need no container engine
	$(PY) -m pytest -n 2 -m "not docker and not slow"

clean: ## remove caches and what was built here
	rm -rf agentforge/api/web/dist agentforge/api/web/node_modules
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov dist build
	find agentforge tests -name __pycache__ -type d -prune -exec rm -rf {} +
