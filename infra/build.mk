# Checking, building and deploying the stack. Included by the Makefile, whose variables it uses.

SAM := .venv-sam/bin/sam
# Any region works: lint does not use an account.
LINT_REGION := us-east-1

# Every requirements.txt and its groups of pyproject.toml; the layer has the project's own dependencies.
REQUIREMENTS := layers/codelab=--no-default-groups functions/authorize=--only-group=authorize \
  functions/control=--only-group=authorize functions/llm_request=--only-group=llm functions/rest_api=--only-group=rest \
  functions/rest_stream=--only-group=stream
define requirements_of
{ printf '\043 Written from uv.lock by `make requirements`; do not edit.\n'; \
$(UV) export --quiet --frozen --no-emit-project --no-annotate --no-header $$(cut -d= -f2- <<<"$$entry"); }
endef

# The folder of a python3.13 with pip: sam build finds it on PATH and uses it to install the functions' dependencies.
define find_python3_13
for p in "$$PWD/.uv/bin/python3.13" "$$(command -v python3.13 || true)" \
  $$(ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.13.*/bin/python3.13 2>/dev/null | sort -rV) \
  /usr/bin/python3.13 /usr/local/bin/python3.13 /opt/homebrew/bin/python3.13; do \
  if [ -x "$$p" ] && "$$p" -c 'import sys, pip; sys.exit(sys.version_info[:2] != (3, 13))' >/dev/null 2>&1; then \
    "$$p" -c 'import os, sys; print(os.path.dirname(sys.executable))'; exit 0; fi; \
done; \
echo "Python 3.13 with pip is needed to build for Lambda's python3.13 and none was found: install one (for example 'pyenv install 3.13' or 'apt-get install python3.13 python3.13-venv') and run make build again." >&2; exit 1
endef

lint: $(VENV)/.synced .venv-sam/.synced  ## check the code, the types, the templates and the house rules
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(LINTS)

# mypy first, because it takes longest. Each runs, whatever others find.
LINTS := lint-types lint-names lint-imports lint-ruff lint-format lint-template lint-sam lint-requirements lint-docs

lint-types: $(VENV)/.synced
	@echo "lint: mypy"; out=$$($(VENV)/bin/mypy --no-error-summary 2>&1) || { echo "$$out" >&2; exit 1; }

lint-names: $(VENV)/.synced
	@echo "lint: names"; $(VENV)/bin/python -m infra.names >/dev/null

lint-imports: $(VENV)/.synced
	@echo "lint: imports"; out=$$($(VENV)/bin/lint-imports --no-cache 2>&1) || { echo "$$out" >&2; exit 1; }

lint-ruff: $(VENV)/.synced
	@echo "lint: ruff check"; $(VENV)/bin/ruff check --quiet .

lint-format: $(VENV)/.synced
	@echo "lint: ruff format"; $(VENV)/bin/ruff format --quiet --diff . >&2

lint-template: $(VENV)/.synced
	@$(VENV)/bin/python -m infra.lint

lint-sam: .venv-sam/.synced
	@for option in "" --lint; do echo "lint: sam validate $$option"; \
	  out=$$($(SAM) validate $$option --region $(LINT_REGION) 2>&1) || { echo "$$out" >&2; exit 1; }; done

lint-requirements: $(VENV)/.synced
	@echo "lint: uv.lock and the requirements.txt files"; \
	$(UV) lock --quiet --check --offline || { echo "uv.lock does not match pyproject.toml: run '$(UV) lock' and 'make requirements'" >&2; exit 1; }; \
	for entry in $(REQUIREMENTS); do folder=$${entry%%=*}; [ -d "$$folder" ] || continue; \
	  diff -u "$$folder/requirements.txt" <($(requirements_of)) >&2 || \
	    { echo "$$folder/requirements.txt does not match uv.lock: run 'make requirements'" >&2; exit 1; }; done

lint-docs: $(VENV)/.synced
	@echo "lint: generated documents"; $(VENV)/bin/python -m infra.docs --check
	@echo "lint: docs/aws-claims.md"; $(VENV)/bin/python -m infra.docs.aws_claims
	@echo "lint: docs/cost.md"; $(VENV)/bin/python -m infra.cost --check
	@echo "lint: docs/conformance.md"; $(VENV)/bin/python -m infra.docs.conformance
	@echo "lint: docs/local-cloud.md"; $(VENV)/bin/python -m infra.docs.local_cloud
	@echo "lint: the version"; $(VENV)/bin/python -m infra.release check

docs: $(VENV)/.synced  ## generate the documents from the code
	@$(VENV)/bin/python -m infra.docs

cost: $(VENV)/.synced  ## count the calls of events; compute docs/cost.md and scale.md
	@WRITE_COUNTS=1 $(VENV)/bin/python -m pytest --quiet --no-header -r N tests/functions/test_costs.py
	@$(VENV)/bin/python -m infra.cost
	@$(VENV)/bin/python -m benchmarks.scale --write >/dev/null

requirements: $(VENV)/.synced  ## write the functions' requirements.txt from uv.lock
	@for entry in $(REQUIREMENTS); do folder=$${entry%%=*}; [ -d "$$folder" ] || continue; \
	  $(requirements_of) > "$$folder/requirements.txt"; echo "$$folder/requirements.txt"; done

# If this machine's wheels do not fit Lambda, SAM calls pip a second time, without hashes. So download the wheels in uv.lock
# for both platforms first, and let pip see no others.
WHEELS := .aws-sam/wheels
LAMBDA_WHEELS := --only-binary=:all: --implementation cp --python-version 3.13 \
  $(addprefix --platform manylinux,2014_aarch64 _2_17_aarch64 _2_28_aarch64 _2_34_aarch64)

# Ship bytecode for the exact runtime: without it, every cold start compiles, which doubles the import time. Unchecked,
# because packaging changes the files' times; with the files' paths in Lambda.
build: .venv-sam/.synced  ## build the stack for Lambda (arm64, python3.13; no Docker)
	@folder=$$($(find_python3_13)); rm -rf $(WHEELS); mkdir -p $(WHEELS); \
	echo "build: wheels, verified by hash"; \
	for target in "" "$(LAMBDA_WHEELS)"; do \
	  out=$$("$$folder/python3.13" -m pip download --require-hashes --no-deps $$target --dest $(WHEELS) \
	    $(foreach entry,$(REQUIREMENTS),--requirement $(firstword $(subst =, ,$(entry)))/requirements.txt) 2>&1) || \
	    { echo "$$out" >&2; exit 1; }; \
	done; \
	echo "build: sam build with $$folder/python3.13"; \
	out=$$(PATH="$$folder:$$PATH" PIP_NO_INDEX=1 PIP_FIND_LINKS="$$PWD/$(WHEELS)" $(SAM) build --parallel --cached 2>&1) || \
	  { echo "$$out" >&2; exit 1; }; echo "build: bytecode"; \
	for built in .aws-sam/build/*/; do built=$${built%/}; \
	  place=/var/task; [ ! -d "$$built/python" ] || place=/opt; \
	  "$$folder/python3.13" -m compileall -q -f -j 0 --invalidation-mode unchecked-hash -s "$$built" -p "$$place" "$$built"; \
	done; \
	echo "build: $$(du -sh .aws-sam/build | cut -f1) in .aws-sam/build"

release-check: $(VENV)/.synced build  ## build a release; install it in clean environments
	@$(PYTHON) -m infra.release try

# The commands read PARAMETERS, USER and HOURS from the environment, to which the Makefile exports them as they were
# written: make would echo an argument, and ps would show it to every user.
deploy: $(VENV)/.synced  ## deploy to AWS: [STACK=…] [PARAMETERS="Name=value …"] [MODEL_FILE=…]
	@PYTHON3_13=$$( ($(find_python3_13)) 2>/dev/null || true) $(PYTHON) -m infra.stack preflight
	@$(MAKE) --no-print-directory build
	@$(PYTHON) -m infra.stack deploy

token: $(VENV)/.synced  ## print a token: USER=alice [STACK=…] [HOURS=8] [PLAN=…]
	$(if $(filter USER,$(GIVEN)),,$(error name the user: make token USER=alice))
	@$(PYTHON) -m infra.stack token

# USER must be given to make: the shell's own variable USER is somebody else.
revoke: $(VENV)/.synced  ## revoke a user's tokens: USER=alice [STACK=…]
	$(if $(filter USER,$(GIVEN)),,$(error name the user: make revoke USER=alice))
	@$(PYTHON) -m infra.stack revoke

rotate-edge: $(VENV)/.synced  ## give the secret of Edge=true a new value: [STACK=…]
	@$(PYTHON) -m infra.stack rotate-edge

smoke: $(VENV)/.synced  ## test a deployed stack: [STACK=…]
	@$(PYTHON) -m infra.stack smoke

connect: $(VENV)/.synced  ## talk to a stack in the terminal: USER=alice [STACK=…] [WORKSPACE=…]
	$(if $(filter USER,$(GIVEN)),,$(error name the user: make connect USER=alice))
	@$(PYTHON) -m infra.stack connect

# USER must be given to make here, too: without it, all users' sessions are meant.
export: $(VENV)/.synced  ## save sessions: FILE=… [USER=alice [SESSION=…]] [TABLE=…]
	$(if $(filter FILE,$(GIVEN)),,$(error name the file: make export FILE=sessions.ndjson))
	@$(if $(filter USER,$(GIVEN)),,env -u USER) $(PYTHON) -m infra.stack export

restore: $(VENV)/.synced  ## restore sessions: FILE=… [EXISTING=skip|replace] [STACK=…]
	$(if $(filter FILE,$(GIVEN)),,$(error name the file: make restore FILE=sessions.ndjson))
	@$(PYTHON) -m infra.stack restore

destroy: $(VENV)/.synced  ## delete a stack: [STACK=…] [YES=1] [KEEP_DATA=1]
	@$(PYTHON) -m infra.stack destroy

.PHONY: lint $(LINTS) docs cost requirements build release-check
.PHONY: deploy token smoke connect export restore destroy revoke rotate-edge
