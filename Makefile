# `make demo` and `make test` on a fresh machine do all that is needed; see README.md.
PY := .venv/bin/python

.PHONY: demo setup tools check test test-all analyze corpus bench lint format fuzz sanitize simulate dist site clean

demo: setup
	.venv/bin/sluice run examples/first/hello.py -r examples/first/capture.pcap -f examples/first/hello.py
	@mkdir -p build
	.venv/bin/sluice flows -r examples/first/capture.pcap -o build/flows.jsonl
	@echo "the flows are in build/flows.jsonl; the first TCP connection:"
	@grep -m 1 '"proto":"tcp"' build/flows.jsonl

setup:
	@scripts/setup.sh

tools:
	@scripts/setup.sh --tools

# For daily work, in under two minutes: the language, the IR, the passes on text, the runtime in C, the import rules.
check:
	@scripts/setup.sh --tools
	$(PY) -m pytest -n 2 --dist loadfile $(CHECK)

CHECK := tests/test_imports.py tests/lang tests/ir tests/lower tests/hooks tests/passes tests/runtime tests/engine

# Everything but the full matrix. Sanitizers where they can be installed; tests that need them say so where they cannot. By
# files, as the tests of one file share what they compile, the longest first (tests/support/order.py). MATRIX: none, tenth
# or all (tests/support/budget.py). JOBS: more than the cores, as tests with real peers wait for them most of their time.
MATRIX ?= none
JOBS ?= $(shell expr $$(nproc) + $$(nproc) / 2)
test:
	@scripts/setup.sh --sanitizers=try --tshark --isolate=try --analyze=try --browser --notebook
	@SLUICE_CACHE=build/tests-cache $(PY) -m sluice.analyze.toolchain --try
	$(PY) -m pytest -n $(JOBS) --dist loadfile --matrix=$(MATRIX)

# With every setting of passes over the whole corpus, both compilers over every stack, and long random campaigns.
test-all:
	@$(MAKE) test MATRIX=all

# The tool of `sluice analyze`, which builds it on demand as well.
analyze: setup
	@scripts/setup.sh --analyze
	@$(PY) -m sluice.analyze.toolchain

# What of the truth about the captures a stack reproduces; the captures are those of $SLUICE_CORPUS, or tests/corpus.
corpus: setup
	@$(PY) -m tests.corpus.report

# Speed beside others, into docs/performance.md; as root, else without traces of real traffic. Takes an hour.
bench: setup
	@scripts/setup.sh --bench
	$(PY) bench/run.py --save

lint: tools
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/pyright

format: tools
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

# Schedules of chains with several instances, over a simulated network and clock; prints the seeds that fail.
SEEDS ?= 0:2000
simulate: setup
	@$(PY) -m tests.state.simulation.schedule --seeds $(SEEDS)

fuzz:
	@scripts/setup.sh --sanitizers
	@scripts/fuzz.sh

sanitize:
	@scripts/setup.sh --sanitizers
	@scripts/sanitize.sh

# A source archive and a wheel in dist/. The wheel has the parsers of others that scripts/setup.sh gets.
dist: setup
	rm -rf dist
	$(PY) scripts/dist.py

# The manual as a searchable site in build/site.
site:
	@scripts/setup.sh --site
	$(PY) scripts/site.py build/site

# .venv, the fuzzers' corpora and the stacks with sanitizers stay: they are slow to get back.
clean:
	rm -rf build dist *.egg-info .pytest_cache .hypothesis .fuzz/bin .fuzz/log .sanitize/*/bin .sanitize/*/log
	find . -path ./.venv -prune -o \( -name __pycache__ -o -name .ruff_cache \) -type d -prune -exec rm -rf {} +
