"""JobFlows: their dependencies must form a graph without circles."""

from __future__ import annotations

from hekla.admission.graph import is_acyclic, undefined
from hekla.api.kinds import Obj

_NOT_DAG = "jobflow Flow is not DAG"


def validate_job_flow(flow: Obj) -> str:
    flows = (flow.get("spec") or {}).get("flows") or []
    # parity: of two flows of one name the last counts.
    dependencies = {one["name"]: (one.get("dependsOn") or {}).get("targets") or [] for one in flows}
    missing = undefined(dependencies)
    if missing is not None:
        return f"{_NOT_DAG}: vertex is not defined: {missing}"
    return "" if is_acyclic(dependencies) else _NOT_DAG
