# Everything a newcomer types. Each target makes its own environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := build/peers

.PHONY: demo demo-crash test slow lint contract drill soak bench clean
# How long faults strike in the soak, and over how many calls.
MINUTES ?= 15
POSITIONS ?= 2000

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else "crw-farm needs Python 3.11 to 3.13; name one: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[codex,dev]'
	touch $@

# The main job on services that it starts and stops itself.
demo: $(VENV)/.installed
	$(BIN)/crw demo

# The same while a worker, the scheduler and a whole host die under it: ends with the same trees, or fails.
demo-crash: $(VENV)/.installed
	$(BIN)/crw demo --crash

test: $(VENV)/.installed lint
	$(BIN)/python -m pytest -n 4 --dist worksteal

# What takes half a minute and more: the crashed demo, a failover, a full disk, every statement struck in every way.
slow: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 -m slow

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

# The same cases on the fake host and on every supported App Server; fetches those that are not here yet.
contract: $(VENV)/.installed
	$(BIN)/python -m tests.contract

# Every row kind, every boundary, every fault: what dies there changes no result; build/drill.json.
# HOST=other: and each time the first host is lost with its state directory, and another one goes on.
drill: $(VENV)/.installed
	$(BIN)/python -m tests.drill $(if $(HOST),--host $(HOST))

# A farm under load while everything of it is killed at random; build/soak.json. make soak MINUTES=2 POSITIONS=200
soak: $(VENV)/.installed
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --positions $(POSITIONS)

# Every figure against its peer, on services of its own: a table, and build/bench.json.
bench: $(VENV)/.installed $(PEERS)/.installed
	$(BIN)/python -m tests.benchmarks.run --peer-python $(PEERS)/bin/python

# The peers never come near the product's environment.
$(PEERS)/.installed: tests/benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -r tests/benchmarks/peers.txt
	touch $@

clean:
	rm -rf $(VENV) build
