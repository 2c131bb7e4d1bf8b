"""Hekla runs Volcano batch jobs: on one machine, or on any Kubernetes cluster, from the same YAML."""

__version__ = "0.1.0"
