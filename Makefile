# Tasks of discreet. Each one makes or updates .venv first, from the hashed locks in .ci/lock.
# Paths are relative and programs run as modules, so the folder's own path may hold spaces.

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check mutants bench hostile chaos rehearse image arm chart screenshots supply load fuzz openapi sdk protos docs up lock
MAKEFLAGS += --no-print-directory
SHELL := /bin/sh

# Another interpreter than the first that fits in PATH: make test PYTHON=/path/to/python3.13
PYTHON ?=
PYTHONS = 3.11 3.12 3.13
# Further arguments of the program: make test ARGS='-k ledger', make up ARGS='--port 8080'
ARGS ?=

define bootstrap
@for python in "$(PYTHON)" $(PYTHONS:%=python%) python3 python; do \
	if "$$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] not in "$(PYTHONS)".split())' >/dev/null 2>&1; then \
		exec "$$python" .ci/bootstrap.py $(1); \
	fi; \
done; \
echo "discreet needs one of Python $(PYTHONS): none found in PATH (or name one: make PYTHON=/path/to/python3.13)" >&2; exit 1
endef

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r task text; do \
		printf '  make %-11s %s\n' "$$task" "$$text"; \
	done

demo: ## start everything, run one job of every kind, print what came out
	$(call bootstrap,runtime)
	@.venv/bin/python examples/demo.py $(ARGS)

# pytest keeps the texts whose asserts it has rewritten, unless it is told not to: half of the time to begin.
test: ## the tests of every change: all behaviour
	$(call bootstrap,test)
	@PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -n 3 --dist loadfile -m 'not long' $(ARGS)

test-all: ## the tests that `make test` leaves out, for their time
	$(call bootstrap,test)
	@PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -n 3 --dist loadfile -m long $(ARGS)

check: ## lint, formatting, types, layers, locks: what CI runs besides the tests
	$(call bootstrap,test)
	@echo '[discreet] ruff' && .venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@for python in $(PYTHONS); do \
		echo "[discreet] mypy, as Python $$python" && .venv/bin/python -m mypy --python-version $$python || exit 1; \
	done
	@echo '[discreet] contract' && .venv/bin/python -m discreet.api.contract --check openapi
	@echo '[discreet] import-linter' && .venv/bin/python -c 'from importlinter.cli import lint_imports_command as c; c()'
	@echo '[discreet] SDKs' && .venv/bin/python clients/python/generate.py --check
	@.venv/bin/python clients/typescript/generate.py --check
	@echo '[discreet] locks name no address'
	@if grep -nE '[a-z]+://|^ *--(index|extra|find|trusted)| @ ' .ci/lock/*.txt; then exit 1; fi
	@.venv/bin/python .ci/supply.py licences --check

bench: ## measure against the reference solvers
	$(call bootstrap,all)
	@.venv/bin/python -m benchmarks $(ARGS)

mutants: ## plant every fault of tests/mutants/table.toml in a copy of the code: some test must fail for each
	$(call bootstrap,test)
	@.venv/bin/python -m tests.mutants --write $(ARGS)

hostile: ## attack a running service with hostile input, and print what each attack reaches
	$(call bootstrap,test)
	@.venv/bin/python -m tests.hostile $(ARGS)

chaos: ## kill parts of a running service for some minutes and check that nothing is lost or charged twice
	$(call bootstrap,test)
	@.venv/bin/python -m tests.reliability.chaos $(ARGS)

rehearse: ## build the image's lines in a clean folder and run its parts as compose.yaml says (as root)
	$(call bootstrap,test)
	@.venv/bin/python .ci/deployment_rehearsal.py $(ARGS)

image: ## build the image without a registry of images, run it, and say what is in it (as root, on Debian 12)
	$(call bootstrap,test)
	@.venv/bin/python .ci/image.py all $(ARGS)

arm: ## an agent on emulated 64-bit ARM without gmpy2 in a session with others here (as root, on Debian)
	$(call bootstrap,test)
	@.venv/bin/python .ci/arm_agent.py $(ARGS)

chart: ## render the chart of Helm with several values, and validate it against the schemas of Kubernetes
	$(call bootstrap,chart)
	@.venv/bin/python -m pytest tests/deployment/test_chart.py $(ARGS)

screenshots: ## take the pictures of docs/pictures/dashboard again (needs chromium)
	$(call bootstrap,test)
	@.venv/bin/python -m tests.dashboard.screenshots $(ARGS)

supply: ## bill of materials, licences, wheels for every Python, reproducible wheels, known vulnerabilities
	$(call bootstrap,all)
	@.venv/bin/python .ci/supply.py all

load: ## 200 submitters of 10 tenants for 10 minutes: nothing lost, fair turns, flat latency and memory
	$(call bootstrap,test)
	@.venv/bin/python -m tests.reliability.load $(ARGS)

fuzz: ## send whatever the contract allows, and what it does not; look for new examples of every property
	$(call bootstrap,test)
	@DISCREET_FUZZ=long .venv/bin/python -m pytest tests/api/test_fuzz.py tests/log/test_verifier.py tests/log/test_verifier_chains.py --timeout 3600 $(ARGS)
	@.venv/bin/python -m pytest -n 3 --dist loadfile -m hypothesis --hypothesis-profile search --timeout 3600 $(ARGS)

openapi: ## write the contract again, after a change of the API
	$(call bootstrap,test)
	@.venv/bin/python -m discreet.api.contract > openapi/openapi.json

sdk: ## write the generated parts of both SDKs again, after a change of the contract
	$(call bootstrap,test)
	@.venv/bin/python clients/python/generate.py
	@.venv/bin/python clients/typescript/generate.py

protos: ## write the gRPC stubs again, after a change of protos/
	$(call bootstrap,test)
	@PYTHONPATH=clients/python .venv/bin/python -m discreet_client.stubs.generate protos clients/python

docs: ## the documentation as a site, in .site/
	$(call bootstrap,all)
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --quiet --strict --config-file .ci/mkdocs.yml
	@echo '[discreet] .site/index.html'

up: ## run the service here until Ctrl-C
	$(call bootstrap,runtime)
	@.venv/bin/python -m discreet up $(ARGS)

# UPGRADE=1 looks for newer versions; otherwise only what pyproject.toml changed is resolved anew.
COMPILE = .venv/bin/python -m uv pip compile --quiet --universal --python-version $(firstword $(PYTHONS)) --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate --no-emit-package discreet-client
lock: ## resolve the dependencies of pyproject.toml again (UPGRADE=1: to their newest versions)
	$(call bootstrap,test)
	@$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --extra dev -o .ci/lock/test.txt
	@$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml .ci/lock/build.in -c .ci/lock/test.txt -o .ci/lock/runtime.txt
	@$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --extra dev --extra bench --extra docs --extra supply \
		-c .ci/lock/test.txt -o .ci/lock/all.txt
	@$(COMPILE) $(if $(UPGRADE),--upgrade) --group chart -c .ci/lock/test.txt -o .ci/lock/chart.txt
	@if grep -nE '[a-z]+://|^ *--(index|extra|find|trusted)| @ ' .ci/lock/*.txt; then exit 1; fi
	@.venv/bin/python .ci/supply.py pythons
	@echo '[discreet] .ci/lock is up to date'
