# Every target installs what it needs. Only Python >= 3.11 is required beforehand.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.deltactl-installed
REPORT := build/test-report.xml
# -n 3: on two cores, a third worker runs while others wait for servers and for Java.
# loadgroup: tests that share a costly fixture (a Spark session) run on one worker.
PYTEST := $(BIN)/pytest -n 3 --dist loadgroup
UNITS := tests/protocol tests/log tests/parquet tests/engine tests/storage tests/operations tests/test_architecture.py \
	--ignore=tests/storage/objects
LINT := types style layers
CODE := deltactl dev tests $(if $(wildcard benchmarks/*.py),benchmarks)

# Tests start many processes of Python. Each would compile the modules again if none stored them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup quick test collect test-lowest servers catalog-servers lint style types layers format coverage explore explore-slow explore-spark explore-matrix faults fleet fuzz generate histories races world \
	audit dist docs pictures demo scale clean

help: ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## create .venv and install deltactl with its development tools

# Only pyproject.toml decides what is installed; the package itself is installed in place.
$(STAMP): pyproject.toml .ci/setup
	@bash .ci/setup $(VENV)
	@touch $@

quick: lint ## lint, then the unit tests that need no server, no Spark and no other writer's tables
	$(PYTEST) -m "not slow and not spark and not servers and not corpus and not thorough" $(UNITS)

test: servers ## lint, then run all tests but the slow ones
	@$(MAKE) --no-print-directory --jobs=2 --output-sync $(LINT) collect
	@mkdir -p $(dir $(REPORT))
	TMPDIR=$$(bash .ci/scratch) $(PYTEST) -o tmp_path_retention_policy=failed --junit-xml=$(REPORT)

servers: $(STAMP) ## install the object stores that tests run against, once, into ~/.cache/deltactl-tests
	$(BIN)/python -m tests.support.object_servers

catalog-servers: $(STAMP) ## build the server of Unity Catalog that tests use if it is there; half an hour
	$(BIN)/python -m tests.support.catalog_servers

lint: $(STAMP) ## style, format, types, layers
	@$(MAKE) --no-print-directory --jobs=2 --output-sync $(LINT)

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy $(CODE)

layers: $(STAMP)
	$(BIN)/lint-imports --no-logo

# Compiles the tests once, beside the type checker. Otherwise each worker compiles all of them.
collect: $(STAMP)
	@set -o pipefail; $(BIN)/pytest --collect-only -q | tail -n 1

format: $(STAMP) ## format the sources and apply the fixes of the linter
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

coverage: $(STAMP) ## branch coverage of protocol, log, parquet and operations, without the corpus
	DELTACTL_CORPUS=/nonexistent $(PYTEST) --cov --cov-report=term

explore: $(STAMP) ## search all interleavings of writers (docs/consistency.md); long
	$(BIN)/python -m tests.explorer

explore-slow: $(STAMP) ## run the tests marked slow
	$(PYTEST) -m slow --timeout=3600

explore-spark: $(STAMP) ## run the tests of Spark marked slow, such as those on a cluster; ten minutes
	$(PYTEST) -m "slow and spark" --timeout=3600

explore-matrix: $(STAMP) ## maintain every table of the matrix that Delta on Spark writes
	DELTACTL_FULL_MATRIX=1 $(PYTEST) tests/interop/test_spark_matrix.py

# Guided by coverage where atheris is available, unguided elsewhere; FUZZ holds options (tests/fuzz/README.md).
fuzz: $(STAMP) ## feed 10,000,000 generated inputs, malformed or malicious, to all parsers; very long
	$(BIN)/python -m venv .venv-fuzz
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> $$(.venv-fuzz/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tools.pth
	.venv-fuzz/bin/python -m pip install --quiet --disable-pip-version-check 'atheris>=3' || true
	.venv-fuzz/bin/python -m tests.fuzz $(FUZZ)

faults: $(STAMP) ## kill each command 60 times while delta-rs writes (docs/security.md), then on Spark; hours
	$(BIN)/python -m tests.faults
	$(BIN)/python -m tests.faults --spark --rounds 25

# HISTORIES holds options (tests/histories/README.md).
histories: $(STAMP) ## random histories by delta-rs, Delta on Spark and deltactl, read by all after each step; an hour
	$(BIN)/python -m tests.histories $(HISTORIES)

# WORLD holds options (tests/world/README.md).
world: $(STAMP) ## random worlds: producers, backups, wrong clocks, kills, commands that meet; an hour
	$(BIN)/python -m tests.world $(WORLD)

races: $(STAMP) ## optimize while Delta on Spark (local, MinIO, Unity Catalog) and delta-rs (MinIO) change rows, 30 rounds each
	$(BIN)/python -m tests.interop.race_rounds --rounds 30

# FLEET holds options, such as --seeds 4 5.
fleet: $(STAMP) ## maintain against optimize, 300 tables on a local disk and MinIO, three seeds, read by all; long
	$(BIN)/python -m tests.operations.maintain.fleet --spark $(FLEET)

pictures: $(STAMP) ## run commands on sample tables, and draw their screens for the README
	$(BIN)/python -m dev.pictures

generate: $(STAMP) ## write completions/, man/, the table of packages and the texts that have the address of the project
	$(BIN)/python -m dev.generate_files

test-lowest: $(STAMP) ## run the tests with the oldest versions of dependencies that are allowed
	@bash .ci/lowest

audit: $(STAMP) ## look for known vulnerabilities in the installed packages
	$(BIN)/python -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	.venv-audit/bin/pip-audit --skip-editable --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

docs: $(STAMP) ## build the site of the documentation into build/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python -m dev.docs_site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict -f build/mkdocs.yml
	$(BIN)/python -m dev.docs_site --check

dist: $(STAMP) ## build the wheel and the source distribution, and check their descriptions
	rm -rf dist
	$(BIN)/python -m venv .venv-build
	.venv-build/bin/python -m pip install --quiet --disable-pip-version-check build twine
	.venv-build/bin/python -m build --outdir dist
	.venv-build/bin/python -m twine check --strict dist/*

# SCALE holds options and cases, such as --size 0.1M vacuum.
scale: $(STAMP) ## time and memory of deltactl with 0.1, 1 and 10 million files; long, needs an idle machine
	$(BIN)/python -m benchmarks.scale $(SCALE)

demo: $(STAMP) ## compact the small files of a sample table
	$(BIN)/python -m benchmarks.demo

clean: ## remove what was built, .venv included
	rm -rf $(VENV) .venv-lowest .venv-audit .venv-build .venv-fuzz build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
