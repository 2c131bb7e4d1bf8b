"""The columns of Kubernetes' own kinds, as kubectl's users know them."""

from __future__ import annotations

from hekla.apiserver.columns.cells import Column
from hekla.apiserver.columns.cluster import CLUSTER
from hekla.apiserver.columns.network import NETWORK
from hekla.apiserver.columns.pods import PODS
from hekla.apiserver.columns.storage import STORAGE
from hekla.apiserver.columns.workloads import WORKLOADS

BUILT_IN_TABLES: dict[str, list[Column]] = {"/pods": PODS, **WORKLOADS, **NETWORK, **STORAGE, **CLUSTER}
