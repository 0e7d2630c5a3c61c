# Variables are given on the command line: make reproduce-table1 DATA=file LIMIT=20 OUT=results
PROFILE = laptop
DATA =
LIMIT =
OUT = outputs
ARGS =
EXPERIMENT = table1
CELL =
RUN =
JUDGE = lexical
MODEL = smollm2
JUDGES =
TO = $(OUT)/export/$(MODEL)
SHARDS = 1
LAUNCHER = local
SLURM =

VENV ?= .venv
STAMP := $(VENV)/.installed
LOCKS := requirements.lock requirements-nodeps.lock pyproject.toml
# The first Python that is new enough; PYTHON=... names another.
PYTHON ?= $(shell for p in python3.11 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$p; break; }; done)
# PY=... on the command line runs everything in an environment of your own, and makes none.
PY = $(VENV)/bin/python
ENV := $(if $(filter command line,$(origin PY)),,$(STAMP))

# $(call run,EXPERIMENT): the run's own last line is the path of its report, and its failure is make's failure.
run = $(PY) scripts/run.py experiment=$(1) profile=$(PROFILE) 'out="$(OUT)"' \
	$(if $(DATA),'data="$(DATA)"') $(if $(LIMIT),limit=$(LIMIT)) $(ARGS)
# $(call sur,EXPERIMENT,DATA): a view of SUR's records on its data and the chosen profile.
sur = $(PY) scripts/run.py experiment=sur_$(1) profile=$(PROFILE)_$(2) 'out="$(OUT)"' \
	$(if $(DATA),'data="$(DATA)"') $(if $(LIMIT),limit=$(LIMIT)) $(ARGS)
# $(call own,EXPERIMENT): an experiment with a profile of its own, judged by JUDGES where that is given.
own = $(PY) scripts/run.py experiment=$(1) profile=$(PROFILE)_$(1) 'out="$(OUT)"' \
	$(if $(DATA),'data="$(DATA)"') $(if $(LIMIT),limit=$(LIMIT)) $(if $(JUDGES),'judge=[$(JUDGES)]') $(ARGS)
# $(call sweep,EXPERIMENT): jobs on LAUNCHER, then judging and the report, once; also where some jobs failed.
sweep = $(PY) scripts/sweep.py --shards=$(SHARDS) --launcher=$(LAUNCHER) experiment=$(1) profile=$(PROFILE) \
	'out="$(OUT)"' $(if $(DATA),'data="$(DATA)"') $(if $(LIMIT),limit=$(LIMIT)) $(ARGS) $(SLURM); \
	swept=$$?; case $$swept in 0|5) $(call run,$(1)) 'stages=[judge,report]' || exit $$? ;; esac; exit $$swept
bench = $(PY) scripts/bench.py bench=$(1) 'out="$(OUT)"' $(ARGS)

# Threads that wait asleep: where other programs use the cores too, spinning ones make everything several times slower.
export OMP_WAIT_POLICY ?= PASSIVE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
.PHONY: help env test check format smoke judge dry-run clean distclean

help: ## This list
	@echo 'make TARGET [PROFILE=laptop|paper] [DATA=file-or-folder] [LIMIT=examples] [OUT=folder] [ARGS="hydra overrides"]'
	@awk -F ' *(;.*)?## ' '/^[a-z0-9-]+:.*## / {split($$1, t, ":"); printf "  %-18s %s\n", t[1], $$NF}' $(firstword $(MAKEFILE_LIST))

env: $(ENV) ## The virtual environment in VENV (.venv), from the lock files; every other target makes it when missing

test: $(ENV) ## All tests, without network or GPU
	@$(PY) -m pytest -q $(ARGS)

check: $(ENV) ## Style, formatting, types and import directions
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -m pytest -q tests/test_architecture.py

format: $(ENV) ## Put imports and formatting in order
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

smoke: $(ENV) ; @$(PY) scripts/run.py experiment=smoke 'out="$(OUT)"' $(ARGS) ## From configuration to table on a seeded tiny model, under a minute
merge: $(ENV) ; @$(PY) scripts/merge.py 'out="$(OUT)"' name=$(EXPERIMENT) $(ARGS) ## The shards of EXPERIMENT (table1) into answers.parquet and verdicts.parquet; ARGS=prune=true removes them
judge: $(ENV) ; @$(PY) scripts/judge.py 'judge=[$(JUDGE)]' 'run="$(RUN)"' $(ARGS) ## Judge the answers of a run (RUN=outputs/table1) with JUDGE=a,b, and report anew
dry-run: $(ENV) ; @$(call run,$(EXPERIMENT)) dry_run=true ## The plan of EXPERIMENT (table1): cells done, missing and failed, and what it costs

reproduce-table1: $(ENV) ; @$(call run,table1) ## RoPERelay, table 1: selectors x position conditions on three data sets
reproduce-table12: $(ENV) ; @$(call own,table12) ## RoPERelay, table 12: the same answers under several judges (JUDGES=a,b), and how far they agree
reproduce-helloeval: $(ENV) ; @$(call own,helloeval) ## RoPERelay, tables 10 and 11: long answers held to checklists; wants a judge's server
reproduce-sur-niah: $(ENV) ; @$(call sur,niah,niah) ## SUR: exact match on same-key deletions, by allocator and budget
reproduce-sur-geometry: $(ENV) ; @$(call sur,geometry,niah) ## SUR: tokens, window, units at one score, from the same records
reproduce-sur-signals: $(ENV) ; @$(call sur,signals,niah) ## SUR: cheap relevance against attention and state signals
reproduce-sur-qa: $(ENV) ; @$(call sur,qa,qa) ## SUR: multi-hop questions, quality and post-edit latency
reproduce-sur-fidelity: $(ENV) ; @$(call sur,fidelity,qa) ## SUR: nats from Re-prefill for every allocator at four budgets
reproduce-sur-location: $(ENV) ; @$(call sur,location,location) ## SUR: on which side of the deletion the evidence stands
reproduce-sur-holdout: $(ENV) ; @$(call sur,holdout,holdout) ## SUR: regions against tokens at equal numbers, by length
reproduce-sur-executor: $(ENV) ; @$(call bench,executor) ## SUR: packed against interval-wise refresh, by fragmentation
calibrate-niah: $(ENV) ; @$(PY) scripts/calibrate.py 'out="$(OUT)"' $(ARGS) ## Under which construction Shift fails and Re-prefill answers, on a model

explain: $(ENV) ; @$(PY) -m kvrelay.report explain '$(OUT)/$(EXPERIMENT)' --cell '$(CELL)' $(ARGS) ## The records behind a number of a table: CELL="dataset=... selector=... position=..."

bench-grid: $(ENV) ; @$(call bench,grid) ## Prefill, the whole grid, and the same answers cell by cell
bench-bootstrap: $(ENV) ; @$(call bench,bootstrap) ## All intervals of a table from one draw, against scipy's one by one
bench-coverage: $(ENV) ; @$(call bench,coverage) ## How often the intervals hold the truth, by number of clusters
bench-judging: $(ENV) ; @$(call bench,judging) ## Judgements a second against a local server, and memory by number of items
bench-rotation: $(ENV) ; @$(call bench,rotation) ## Re-rotation against its literal two-step reference

export-model: $(ENV) ; @$(PY) scripts/export.py model=$(MODEL) 'to="$(TO)"' $(ARGS) ## MODEL (smollm2) as a plain folder TO that vLLM and other servers read
sweep-table1: $(ENV) ; @$(call sweep,table1) ## Table 1 as jobs, one a model, data set and shard (SHARDS=4 LAUNCHER=slurm_gpu SLURM="hydra.launcher.partition=gpu")
status: $(ENV) ; @$(PY) scripts/status.py 'run="$(or $(RUN),$(OUT)/$(EXPERIMENT))"' $(ARGS) ## How far a run or a sweep is (RUN=outputs/table1): done, running, failed, missing, and the command that finishes
slurm-test: $(ENV) ; @PY="$(PY)" scripts/slurm/test.sh $(ARGS) ## Sweeps on a real SLURM of one host, which it installs (Debian, as root), starts and stops
judge-vllm-test: $(ENV) ; @PY="$(PY)" OUT="$(OUT)" scripts/servers/test.sh vllm ## Judge a run through a real vLLM, which it installs and starts on this machine's processors
judge-serve-test: $(ENV) ; @PY="$(PY)" OUT="$(OUT)" scripts/servers/test.sh serve ## The same through transformers serve

clean: ## Remove ./outputs and all caches; the environment stays
	rm -rf outputs multirun build dist .mypy_cache .pytest_cache .ruff_cache src/*.egg-info
	find src data_adapters judges hydra_plugins scripts tests -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## The same, and remove the environments
	rm -rf .venv .servers

$(STAMP): $(LOCKS)
	@[ -n "$(PYTHON)" ] || { echo 'kvrelay needs Python 3.11 or newer, and neither python3.11 nor python3 is; name one: make PYTHON=/path/to/python' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo '$(PYTHON) is older than Python 3.11; name another: make PYTHON=/path/to/python' >&2; exit 1; }
	@echo 'making the environment in $(VENV): once, some minutes' >&2
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -r requirements.lock
	$(VENV)/bin/python -m pip install --quiet --no-deps -r requirements-nodeps.lock -e .
	@touch $@
