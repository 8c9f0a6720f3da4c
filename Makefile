# make demo       the main job, from nothing
# make check      lint, types, import rules, tests that need neither root nor services
# make test       what CI runs; as root it runs the native tests a second time as an ordinary user
# make test-full  the long and heavy rest
# make bench      the figures
# make containment  the containment probes against other tools, as an ordinary user
SHELL := /bin/sh
# An interpreter that an ordinary user can execute too: one below a closed home directory would not do.
PYTHON ?= $(shell for p in /usr/bin/python3 python3; do $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
# Tests wait more than they compute. A class shares one sandbox, and a module is checked for what it leaves: both stay whole.
PYTEST := $(BIN)/python -m pytest --numprocesses 3 --dist loadscope

.PHONY: demo check lint test test-here test-user test-full bench containment clean setup

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml hatch_build.py $(wildcard backends/helper/*.c backends/helper/*.h)
	@test -n "$(PYTHON)" || { echo "isandbox needs Python 3.11 or newer with venv (apt-get install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/isandbox run -- python3 examples/demo.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/unasync.py --check
	$(BIN)/python scripts/contract_doc.py --check
	$(BIN)/python scripts/backends_doc.py --check
	$(BIN)/python scripts/cli_doc.py --check
	$(BIN)/python scripts/configuration_doc.py --check

check: lint
	$(PYTEST) -q -m "not native and not package and not full"

# The two halves wait more than they compute: side by side they take as long as the longer one.
test: lint
	$(MAKE) --jobs=2 --output-sync=target test-here test-user

test-here: setup
	$(PYTEST) -m "not full"

# As root: the native tests again as a user who is nobody in particular, from a copy that this user can read.
test-user: setup
	@if [ "$$(id -u)" = 0 ]; then sh scripts/as_user.sh "$(PYTHON)"; else echo "test-user: already an ordinary user"; fi

test-full: test
	$(BIN)/python -m pytest -m full
	@if [ "$$(id -u)" = 0 ]; then sh scripts/as_user.sh "$(PYTHON)" full; fi

bench: setup
	$(BIN)/python -m benchmarks

containment: setup
	$(BIN)/python -m benchmarks.containment --write

clean:
	rm -rf $(VENV) dist build backends/isandbox_backends/_bin
