"""What pods cannot have on this machine, and what would change that: for the log, the Node object, `hekla status`."""

from __future__ import annotations

from hekla.node.context import NodeContext
from hekla.node.hooks.cgroups import missing_for_cgroups
from hekla.node.isolation import without_namespaces
from hekla.node.uplink import missing
from hekla.node.user_ids import missing_for_ids


def notes(context: NodeContext) -> list[str]:
    """One sentence each; none where everything works."""
    if not context.namespaces:
        return [f"pods are plain processes, without isolation, volumes or names: {without_namespaces()}"]
    found = []
    if not context.enforces_rules:
        found.append("NetworkPolicies and cluster addresses do nothing: missing is nft (Debian's package nftables)")
    if context.cgroups is None:
        found.append(f"resource limits are not enforced: missing is {missing_for_cgroups()}")
    outgoing = context.settings.outgoing
    if outgoing != "none" and not context.way_out:
        lacking = missing(outgoing)
        why = f"missing is {lacking}" if lacking else "the way out could not be opened; switch.log says why"
        found.append(f"pods cannot reach other networks: {why}")
    if context.ids == 1:
        found.append(f"programs that change their user, such as sshd, fail: missing is {missing_for_ids()}")
    return found
