"""Nodes and shapes as arrays, kept up to date row by row.

A table cannot grow a column or a line in the middle: where a change would need one, the methods answer False and the
cache builds the tables anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hekla.scheduler.arrays.resources import Columns, Floats, new_table
from hekla.scheduler.cardtable import CardTable
from hekla.scheduler.groupbuilding import GroupBuilder
from hekla.scheduler.rows import HostPort, Node, Pod, PodGroup, PodStatus, Shape
from hekla.scheduler.snapshot import Group, Nodes

_FIRST_SHAPES = 64


class Tables:
    """Node tables (a line a node, by name) and the request table (a line a shape)."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.rows: list[Node] = []
        self._frozen: tuple[Node, ...] | None = None
        self._cordoned: tuple[int, ...] = ()
        self._tainted: tuple[int, ...] = ()
        self.lines: dict[str, int] = {}
        self.allocatable = new_table(0, len(self.columns))
        self.used = new_table(0, len(self.columns))
        self.releasing = new_table(0, len(self.columns))
        self.assumed = new_table(0, 2)
        self.ports: dict[int, list[HostPort]] = {}
        self.cards: CardTable | None = None  # where no node has any
        self.shapes: list[Shape] = []
        self.asked_keys: frozenset[str] = frozenset()  # of labels by which shapes look for company
        self.shape_lines: dict[int, int] = {}
        self.requests: Floats = np.zeros((_FIRST_SHAPES, len(self.columns)))
        self._builder = GroupBuilder(self.shape_lines, self.columns)

    @classmethod
    def build(cls, nodes: Iterable[Node], pods: list[Pod], names: Iterable[str]) -> Tables:
        tables = cls()
        tables.rows = sorted(nodes, key=lambda node: node.name)
        shapes = {id(pod.shape): pod.shape for pod in pods}
        known = {name for node in tables.rows for name in node.allocatable}
        known.update(name for shape in shapes.values() for name in shape.request)
        tables.columns = columns = Columns(known.union(names))
        tables.lines = {node.name: line for line, node in enumerate(tables.rows)}
        tables.allocatable, tables.used, tables.releasing = (
            new_table(len(tables.rows), len(columns)) for _ in range(3)
        )
        tables.assumed = new_table(len(tables.rows), 2)
        tables.requests = np.zeros((_FIRST_SHAPES, len(columns)))
        tables._builder = GroupBuilder(tables.shape_lines, columns)
        for line, node in enumerate(tables.rows):
            tables.allocatable[line] = columns.row(node.allocatable)
        if any(node.cards for node in tables.rows):
            tables.cards = CardTable(tables.rows)
        tables.add_shapes(shapes.values())
        for pod, times in _alike(pods):
            tables.charge(pod, times)
        return tables

    def add_shapes(self, shapes: Iterable[Shape]) -> bool:
        """False when a shape names a resource there is no column for."""
        return all(self._add_shape(shape) for shape in shapes)

    def replace_node(self, node: Node) -> bool:
        """Put a new row in the place of the node's old one; False when the tables have no room for it."""
        line = self.lines.get(node.name)
        if line is None or not self.columns.covers(node.allocatable) or node.cards != self.rows[line].cards:
            return False
        self.rows[line] = node
        self._frozen = None
        self.allocatable[line] = self.columns.row(node.allocatable)
        return True

    def charge(self, pod: Pod | None, sign: float) -> bool:
        """Count a pod on its node (or take it off); False when the tables have no column for what it asks.

        A pod that holds nothing but amounts may be counted several times at once.
        """
        if pod is None or not pod.holds_node:
            return True
        line = self.lines.get(pod.node)
        if line is None:
            return True
        if not self._add_shape(pod.shape):
            return False
        request = self.requests[self.shape_lines[id(pod.shape)]] * sign
        self.used[line] += request
        if pod.status is PodStatus.RELEASING:
            self.releasing[line] += request
        self.assumed[line, 0] += pod.shape.assumed_cpu * sign
        self.assumed[line, 1] += pod.shape.assumed_memory * sign
        held = self.ports.setdefault(line, []) if pod.shape.constraints.ports else []
        for port in pod.shape.constraints.ports:
            held.append(port) if sign > 0 else held.remove(port)
        if pod.cards and self.cards is not None:
            self.cards.charge(pod, line, sign)
        return True

    def build_group(self, row: PodGroup, priority: int, pods: Sequence[Pod]) -> Group:
        return self._builder.build(row, priority, pods, self.requests)

    def nodes(self) -> Nodes:
        if self._frozen is None:
            self._frozen = tuple(self.rows)
            self._cordoned = tuple(line for line, node in enumerate(self.rows) if node.unschedulable)
            self._tainted = tuple(line for line, node in enumerate(self.rows) if node.taints)
        return Nodes(
            rows=self._frozen,
            allocatable=self.allocatable.copy(order="F"),
            used=self.used.copy(order="F"),
            releasing=self.releasing.copy(order="F"),
            assumed=self.assumed.copy(order="F"),
            ports={line: tuple(held) for line, held in self.ports.items() if held},
            cordoned=self._cordoned,
            tainted=self._tainted,
            cards=None if self.cards is None else self.cards.snapshot(),
        )

    def _add_shape(self, shape: Shape) -> bool:
        if id(shape) in self.shape_lines:
            return True
        if not self.columns.covers(shape.request):
            return False
        line = len(self.shapes)
        if line == len(self.requests):
            # A new array: snapshots keep looking at the old one.
            self.requests = np.concatenate([self.requests, np.zeros_like(self.requests)])
        self.requests[line] = self.columns.row(shape.request)
        self.shapes.append(shape)
        if shape.constraints.company is not None:
            self.asked_keys = self.asked_keys.union(shape.constraints.company.label_keys())
        self.shape_lines[id(shape)] = line
        return True


def _alike(pods: Iterable[Pod]) -> Iterable[tuple[Pod, float]]:
    """The pods, those that weigh the same on the same node as one with their number: mostly there are many of them."""
    one_by_one: list[tuple[Pod, float]] = []
    together: dict[tuple[str, int, bool], tuple[Pod, float]] = {}
    for pod in pods:
        if not pod.holds_node:
            continue
        if pod.cards or pod.shape.constraints.ports:
            one_by_one.append((pod, 1.0))
            continue
        key = (pod.node, id(pod.shape), pod.status is PodStatus.RELEASING)
        together[key] = (pod, together[key][1] + 1.0 if key in together else 1.0)
    return [*one_by_one, *together.values()]
