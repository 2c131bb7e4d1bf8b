"""Where the images of pods are already.

A node tells of some fifty images, most of them under two names. The table keeps by name who has it, so that a cycle is
given only the names that its waiting pods ask for; from those come the points of each node, once for all pods with the
same images.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hekla.api.kinds import Obj
from hekla.scheduler.arrays.resources import Ints
from hekla.scheduler.arrays.scores import presence
from hekla.scheduler.rows import Pod, PodImages
from hekla.scheduler.snapshot import Group, ImagePlace

NO_IMAGES = -1


def full_name(image: str) -> str:
    """As nodes name it: with a tag. A colon before the last slash is that of a registry's port."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def read_images(node: Obj) -> dict[str, int]:
    """By name: the bytes of the images that a node tells of."""
    told = (node.get("status") or {}).get("images") or ()
    return {str(name): int(image.get("sizeBytes") or 0) for image in told for name in image.get("names") or ()}


@dataclass(slots=True, eq=False)
class _Image:
    name: str
    size: int  # as told last
    by_node: dict[str, int] = field(default_factory=dict)
    place: ImagePlace | None = None  # as of the last snapshot, unless that has changed


class ImageTable:
    """As nodes tell it. Nobody has to be looked at again because an image came or went: it makes some nodes better."""

    def __init__(self) -> None:
        self._images: dict[str, _Image] = {}
        self._of_node: dict[str, tuple[str, ...]] = {}
        self._lines: Mapping[str, int] | None = None

    def put(self, node: str, images: Mapping[str, int]) -> None:
        for name in self._of_node.get(node, ()):
            if name not in images:
                self._lose(name, node)
        names = [self._have(name, node, size) for name, size in images.items()]
        if names:
            self._of_node[node] = tuple(names)
        else:
            self._of_node.pop(node, None)

    def remove(self, node: str) -> None:
        self.put(node, {})

    def snapshot(self, groups: Iterable[Group], lines: Mapping[str, int]) -> dict[str, ImagePlace]:
        """The images of the groups' pods that are on any node; `lines` is the same object until nodes come or go."""
        if not self._images:
            return {}
        if lines is not self._lines:
            self._lines = lines
            for image in self._images.values():
                image.place = None
        wanted = frozenset[str]().union(*map(_images_in, groups))
        return {name: self._place(self._images[name], lines) for name in wanted if name in self._images}

    def _have(self, name: str, node: str, size: int) -> str:
        """The name, in the one copy that is kept of it."""
        image = self._images.get(name)
        if image is None:
            image = self._images[name] = _Image(name, size)
        if image.by_node.get(node) != size:
            # Equal numbers are kept once as well.
            image.size = image.size if image.size == size else size
            image.by_node[node] = image.size
            image.place = None
        return image.name

    def _lose(self, name: str, node: str) -> None:
        image = self._images[name]
        del image.by_node[node]
        image.place = None
        if not image.by_node:
            del self._images[name]

    def _place(self, image: _Image, lines: Mapping[str, int]) -> ImagePlace:
        if image.place is None:
            sizes = {lines[node]: size for node, size in image.by_node.items() if node in lines}
            mean = sum(sizes.values()) / len(sizes) if sizes else 0.0
            image.place = ImagePlace(np.array(list(sizes), dtype=np.int64), mean)
        return image.place


def _images_in(group: Group) -> frozenset[str]:
    """Of all pods of the group. Groups stay the same for many cycles."""
    found = group.memo.get(_images_in)
    if not isinstance(found, frozenset):
        each = {pod.images for pod in group.pods}
        found = group.memo[_images_in] = frozenset(name for images in each for name in images.names)
    return found


class Images:
    """In one cycle: pods with the same images have a number, those for which all nodes are alike have none."""

    def __init__(self, places: Mapping[str, ImagePlace], nodes: int) -> None:
        self.active = bool(places)
        self._places = places
        self._nodes = nodes
        self._numbers: dict[PodImages, int] = {}
        self._points: list[Ints] = []

    def number(self, pod: Pod) -> int:
        found = self._numbers.get(pod.images)
        if found is None:
            points = self._points_of(pod.images)
            found = self._numbers[pod.images] = NO_IMAGES if points is None else len(self._points)
            if points is not None:
                self._points.append(points)
        return found

    def points(self, number: int) -> Ints:
        """Of every node, 0 … 100."""
        return self._points[number]

    def _points_of(self, images: PodImages) -> Ints | None:
        there = [self._places[name] for name in images.names if name in self._places]
        if not there:
            return None
        total: Ints = np.zeros(self._nodes, dtype=np.int64)
        for lines, size in there:
            # What few nodes have counts for less, or everybody would go to those few.
            total[lines] += int(size * (len(lines) / self._nodes))
        points = presence(total, images.containers)
        return points if points.min() != points.max() else None
