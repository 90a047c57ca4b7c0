# distrain. `make` alone lists the targets.
.DEFAULT_GOAL := help
.PHONY: help setup venv demo build test lint schema docs lock package images sbom audit cluster cluster-status bench bench-demo bench-check bench-inputs bench-chaos bench-client bench-predict bench-prose bench-readers bench-full bench-gitops bench-tests bench-guest bench-mutants bench-why bench-scale bench-gpu clean distclean
SHELL := /bin/bash

CACHE := $(or $(DISTRAIN_CACHE),$(HOME)/.cache/distrain)
VENV := $(CACHE)/venvs/$(shell (cat requirements.txt; python3 --version) | sha256sum | cut -c1-12)
PYTHON := $(VENV)/bin/python

# What Python compiles lies outside the tree. Without it, each process of the tests compiles all modules anew. The tests
# remove what was compiled long ago, and of their temporary folders.
export PYTHONPYCACHEPREFIX := $(CACHE)/pycache
unexport PYTHONDONTWRITEBYTECODE

# The names of the tests that have passed with the tracked files as they are, for benchmarks that go on where they were
# ended. Pages and recorded results may change meanwhile.
PASSED = $(CACHE)/passed/$(shell git ls-files -s -- ':!docs' ':!*.md' ':!*.jsonl' ':!tests/mutants' | sha256sum | cut -c1-12)

# The groups of Debian packages in lab/setup.sh that a target needs. Without a line here it gets all.
demo cluster cluster-status bench-demo bench-scale: PACKAGES := node images $(if $(GITOPS),gitops)
bench: PACKAGES := node images compiler
bench-readers: PACKAGES := compiler
images sbom bench-chaos: PACKAGES := images
lint: PACKAGES := lint
schema docs lock package audit bench-check bench-prose: PACKAGES := python

help: ## list the targets
	@sed -n 's/^\([a-z%-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## install Debian packages, a Python environment and Go where they are missing
	@lab/setup.sh $(VENV) $(PACKAGES)

venv: ## print the folder of the lab's Python environment
	@echo $(VENV)

demo: setup ## train on an embedded Kubernetes, or on KUBECONFIG's cluster; FRAMEWORK=pytorch or mxnet; EPOCHS=n
	@$(PYTHON) -m lab demo

build: setup ## build every program and image that the tests need
	@$(PYTHON) -m lab build

test: build ## run the tests, the cluster's beside the others; PYTEST_ARGS="-k words" picks some
	@mkdir -p $(PYTHONPYCACHEPREFIX)
	@find $(PYTHONPYCACHEPREFIX) -ignore_readdir_race -type f '(' -path '*/pycache/tmp/*' -o -mtime +7 ')' -delete
	@$(PYTHON) -m pytest --numprocesses 3 $(PYTEST_ARGS)

test-%: setup ## run one part: unit, install, chart, trainer or cluster
	@$(PYTHON) -m pytest -m $* $(PYTEST_ARGS)

lint: setup ## ruff, mypy, shellcheck, yamllint, helm lint, import-linter
	@PATH=$(VENV)/bin:$$PATH lab/lint.sh

schema: setup ## write the chart's values.schema.json, files/models.json and files/trainer.tar.bz2, the plugin's kinds.json, and docs/values.md
	@PYTHONPATH=trainer $(PYTHON) -m schemas.models
	@$(PYTHON) -m schemas.trainer
	@$(PYTHON) -m schemas.build
	@$(PYTHON) -m schemas.kinds
	@$(PYTHON) -m schemas.document

docs: setup ## write docs/plugin.md from the texts and arguments of the commands, docs/causes.md, docs/prediction.md, docs/messages.md, and the picture in docs/architecture.md
	@PYTHONPATH=plugin $(PYTHON) -m docs.plugin
	@$(PYTHON) -m tests.cluster.why.table
	@PYTHONPATH=plugin $(PYTHON) -m tests.plugin.predict.table
	@$(PYTHON) -m docs.picture
	@$(PYTHON) -m docs.messages

lock: setup ## write the pinned and hashed requirements from their .in files
	@PATH=$(VENV)/bin:$$PATH lab/lock.sh

package: setup ## write dist/: the chart, the plugin with its chart, and the Python wheel; KEY=NAME signs with GnuPG
	@$(PYTHON) -m lab.builds.package $(KEY)

images: setup ## build the trainer's images, and load them into the lab if it runs
	@$(PYTHON) -m lab images

sbom: setup ## write dist/*.cdx.json (CycloneDX): which packages the images and the plugin consist of
	@$(PYTHON) -m lab.builds.sbom

audit: setup ## look up known vulnerabilities of what is pinned; error 3: their data cannot be reached from here
	@$(PYTHON) -m lab.builds.audit

cluster: setup ## start the embedded Kubernetes; MPIJOB=v2beta1, v1, v1alpha2 or none picks its operators; GITOPS=argocd or flux
	@$(PYTHON) -m lab up $(if $(MPIJOB),--mpijob=$(MPIJOB)) $(if $(GITOPS),--gitops=$(GITOPS))

cluster-status: setup ## say what runs of the embedded Kubernetes
	@$(PYTHON) -m lab status

bench: setup ## measure rendering, the plugin's start, reading a cluster, data, the lab's start, the trainer's speed
	@$(PYTHON) -m lab bench

bench-demo: setup ## measure the first demo, from empty caches, and the second; both cores should be idle
	@$(PYTHON) -m lab bench-demo

bench-check: setup ## hold the plugin's check to Kubernetes' code over 100,000 clusters; CHECK_ARGS="--from 5000"
	@PYTHONPATH=plugin $(PYTHON) -m tests.plugin.check.comparison $(CHECK_ARGS)

bench-inputs: setup ## run the plugin with 20,000 random broken inputs; INPUTS_ARGS="--from 5000" goes on
	@PYTHONPATH=plugin $(PYTHON) -m tests.plugin.inputs.bench $(INPUTS_ARGS)

bench-chaos: build ## kill trainings 1,000 times, and compare what they saved; again goes on; CHAOS_ARGS="--points 40"
	@PYTHONPATH=trainer $(PYTHON) -m tests.trainer.benches.bench_chaos $(CHAOS_ARGS)

bench-client: setup ## change releases on the running lab while their client is cut, killed or loses the API server; again goes on
	@$(PYTHON) -m tests.cluster.client_faults.bench $(CLIENT_ARGS)

bench-predict: setup ## on the running lab: hold predict to runs of two workers over networks of three rates, medians of five
	@$(PYTHON) -m lab.bench.prediction

bench-prose: setup ## draw 200 sentences of comments, docstrings, messages, values and pages, to see how many must be read twice; SEED=n
	@$(PYTHON) -m docs.prose --seed $(or $(SEED),1)

bench-readers: setup ## compare the trainer's data reader with four libraries; both cores should be idle; READERS_ARGS="--rounds 1"
	@PYTHONPATH=trainer $(PYTHON) -m lab.bench.readers $(READERS_ARGS)

bench-full: build ## run the rest of each matrix of which the tests try one path; again goes on; PYTEST_ARGS="-k words" picks some
	@FULL=1 $(PYTHON) -m pytest -m full --resume $(PASSED) $(PYTEST_ARGS)

bench-gitops: build ## run every kind of job, fault and package under Argo CD and Flux; again goes on; PYTEST_ARGS="-k words" picks some
	@FULL=1 $(PYTHON) -m pytest tests/cluster/gitops --resume $(PASSED) $(PYTEST_ARGS)

bench-why: build ## produce each cause that status names on the lab, and compare its words; again goes on; PYTEST_ARGS="-k words" picks some
	@FULL=1 $(PYTHON) -m pytest tests/cluster/why --resume $(PASSED) $(PYTEST_ARGS)

bench-scale: setup ## measure runs of 1,000 workers, and 100 runs at once, on the running lab with KWOK's nodes; again goes on
	@$(PYTHON) -m lab.bench.scale

bench-tests: build ## run all tests until six runs have passed, three beside a load on each core; again goes on
	@$(PYTHON) -m tests.bench_tests

bench-guest: build ## end demos at 20 moments, and compare the machine after make clean with the one before; again goes on
	@$(PYTHON) -m tests.cluster.lab.bench_guest

bench-mutants: setup ## change the code that decides in 1,000 places, and see whether a test notices; again goes on; MUTANTS_ARGS="--minutes 3"
	@$(PYTHON) -m tests.mutants.bench $(MUTANTS_ARGS)

bench-gpu: ## on a machine with a GPU and PyTorch: hold the trainer to a bare loop; TORCH=/path/to/python3, GPU_ARGS="--models vgg16"
	@PYTHONPATH=trainer $(or $(TORCH),python3) -m lab.bench.gpu $(GPU_ARGS)

clean: ## stop and remove the embedded Kubernetes; caches stay
	@python3 -m lab.cluster.teardown

distclean: ## stop and remove the embedded Kubernetes and the cache; Debian packages and Go's own caches stay
	@python3 -m lab.cluster.distclean
