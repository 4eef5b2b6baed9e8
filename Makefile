# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0

# `make demo`: the whole road on the built-in sample. `make test`: every test. BASE_PYTHON=... makes the virtual environment with
# another Python; PIP_ARGS=... is passed to pip. Paths are relative, so the folder may have any name.
USABLE = import sys; sys.exit(sys.version_info < (3, 11))
BASE_PYTHON = $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell $(name) -c '$(USABLE)' 2>/dev/null && echo $(name))))
VENV_PYTHON = .venv/bin/python
PIP_ARGS =
GENERATED = {{cookiecutter.repo_name}}
REQUIREMENTS = paddle/requirements.txt torch_ref/requirements.txt pipeline/requirements.txt
GENERATE_DEMO = $(VENV_PYTHON) -m cookiecutter . --no-input --default-config --accept-hooks no --overwrite-if-exists --output-dir build repo_name=demo

.DEFAULT_GOAL = help
.PHONY: help demo test mutants bench lint clean

help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

demo: .venv/demo-installed ## Generate the image sample into build/demo and align it: five steps, training, report
	$(GENERATE_DEMO)
	$(MAKE) --no-print-directory -C build/demo align PYTHON=../../$(VENV_PYTHON)
	@echo 'Open build/demo/pipeline/work/report.html in a browser.'

test: .venv/test-installed ## Every test of the template and of what it generates
	PYTHONDONTWRITEBYTECODE=1 $(VENV_PYTHON) -m pytest

mutants: .venv/test-installed ## The measure of the judge: wrong ports must turn red at their step and be named, right ones stay green
	$(VENV_PYTHON) ci/mutants/run.py

bench: .venv/test-installed ## Speed and memory of comparison and conversion beside numpy and reprod_log, 1 GB each
	$(VENV_PYTHON) ci/bench/compare.py
	$(VENV_PYTHON) ci/bench/convert.py

lint: .venv/test-installed ## Style of all Python
	$(VENV_PYTHON) -m ruff check --no-cache .

clean: ## Remove build/ (the demo), not .venv
	rm -rf build

.venv/demo-installed: $(REQUIREMENTS:%=$(GENERATED)/%) ci/requirements.txt
	@$(or $(BASE_PYTHON),false) -c '$(USABLE)' || { echo "Python 3.11 or newer is needed: make demo BASE_PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(BASE_PYTHON) -m venv .venv
	$(VENV_PYTHON) -m pip install $(PIP_ARGS) --constraint ci/requirements.txt cookiecutter
	$(GENERATE_DEMO)
	$(VENV_PYTHON) -m pip install $(PIP_ARGS) $(REQUIREMENTS:%=-r build/demo/%)
	@touch $@

.venv/test-installed: .venv/demo-installed
	$(VENV_PYTHON) -m pip install $(PIP_ARGS) -r ci/requirements.txt
	@touch $@
