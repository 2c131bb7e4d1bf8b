"""Whether a node is one of those that a term of a selector means."""

from __future__ import annotations

from hekla.scheduler.rows import Node, Term


def matches(term: Term, node: Node) -> bool:
    """A term that asks for nothing matches nothing."""
    if not term.labels and not term.names:
        return False
    return term.labels.matches(node.labels) and term.names.matches({"metadata.name": node.name})
