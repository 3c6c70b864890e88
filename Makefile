# `make` alone prints the targets. Every target that needs set-up does it by itself.
PY := .venv/bin/python
.DEFAULT_GOAL := help
# Some containers set it; without bytecode every process that a test starts compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE
# tests wait, too: more processes than CPUs
WORKERS ?= $(shell echo $$((3 * $$(nproc))))
PYTEST := $(PY) -m pytest -q -n $(WORKERS) --dist loadscope
.PHONY: help demo check test soak docs pictures test-ipex lint types bench guard dist constraints setup clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## Three practice hosts on this machine: doctor, install, run
	@PATH="$(CURDIR)/.venv/bin:$$PATH" examples/demo.sh

test: setup ## Lint, types and all tests but the long ones
	@$(MAKE) --no-print-directory lint types
	$(PYTEST) -m "not soak" || $(PY) tools/failed_again.py

check: setup ## Lint, types, and the quick tests: before every commit
	@$(MAKE) --no-print-directory lint types
	$(PYTEST) -m "pure or local"

soak: setup ## Long tests: faults, frameworks, the alarm (root; 3 GB to fetch, 30 GB of disk)
	$(PY) -m pytest -q -m soak
	$(PY) -m pytest -s tests/soak

test-ipex: setup ## The real IPEX on two practice hosts (root; up to 4 GB to fetch, 26 GB of disk)
	@echo "Fetches torch 2.8.0, IPEX 2.8.0 and Intel MPI into ~/.cache/ipexctl: 4.0 GB where your"
	@echo "indexes have only the CUDA build of torch, a tenth of that else. The two practice hosts"
	@echo "take 11 GB each while they are up. What is in the cache is not fetched again."
	$(PY) -m pytest -s tests/ipex

docs: setup ## Write the generated tables of docs/ again, build the site in build/site
	$(PY) tools/gen_docs.py
	$(PY) tools/build_site.py

pictures: setup ## Record all pictures of docs/ again (root, ten minutes)
	$(PY) tools/make_recordings.py

lint: setup ## ruff, its formatting, and Python 3.6 for what runs on the hosts
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	.venv/bin/vermin --quiet --no-tips --violations --target=3.6- ipexctl/common ipexctl/remote ipexctl/in_ranks

types: setup ## mypy --strict
	$(PY) -m mypy

bench: setup ## Run the benchmarks, write docs/benchmarks.md (root, half an hour of a quiet machine)
	$(PY) benchmarks/page.py

guard: setup ## Is anything slower than the baseline? (root, two minutes of a quiet machine)
	$(PY) benchmarks/guard.py

dist: setup ## Build the wheel and the sdist in dist/, and try the wheel on every Python here
	rm -rf dist
	$(PY) -m build
	$(PY) tools/try_wheels.py

constraints: setup ## Renew the versions that `make setup` installs, print what changed
	@$(PY) tools/renew_constraints.py

setup: ## Install what is missing here, build .venv (quick when nothing changed)
	@tools/bootstrap.sh

clean: ## Remove .venv, caches and build folders
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
