# The two commands: make run, make test. Both do all set-up themselves.
SHELL := /bin/bash
.DEFAULT_GOAL := help

help: ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## set up, then run a real three-pod gang on this machine
	@scripts/setup run
	@env -u KUBECONFIG .venv/bin/hekla run examples/hello-gang/job.yaml

test: ## set up, then lint, type-check and run every test that needs no Go toolchain
	@scripts/setup dev
	@scripts/check
	@scripts/test

test-cluster: ## the same job on a real kube-apiserver and etcd (built once with Go)
	@scripts/setup dev
	@scripts/test-cluster

bench: ## measure Hekla and its peers side by side
	@scripts/setup dev
	@.venv/bin/python -m benchmarks.first_look

lock: ## resolve the dependencies anew
	@scripts/lock

clean: ## remove what set-up and tests made here
	rm -rf .venv build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help run test test-cluster bench lock clean
