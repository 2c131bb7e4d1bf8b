"""Which images are where, kept up to date, is what a look at every node finds."""

from __future__ import annotations

import random

import pytest

from hekla.scheduler.cache import Cache
from hekla.scheduler.images import NO_IMAGES, full_name
from hekla.scheduler.session import Session
from hekla.scheduler.trial.miniature import Miniature
from hekla.scheduler.trial.objects import node_object

IMAGES = ("a:1", "b:1", "c:latest")


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("tool", "tool:latest"),
        ("tool:1", "tool:1"),
        ("registry.example:5000/tool", "registry.example:5000/tool:latest"),
        ("registry.example:5000/tool:1", "registry.example:5000/tool:1"),
        ("tool@sha256:0", "tool@sha256:0"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(image: str, name: str) -> None:
    assert full_name(image) == name


@pytest.mark.parametrize("seed", range(20))
def test_points_after_many_changes_are_those_of_a_new_start(seed: int) -> None:
    rng = random.Random(seed)
    world = Miniature()
    world.add({"queues": [{"name": "default"}], "groups": [{"name": f"g{i}", "image": i, "pods": 1} for i in IMAGES]})
    cache = world.cache()
    for _ in range(40):
        name = f"n{rng.randrange(5)}"
        if rng.random() < 0.2:
            world.objects.pop(("Node", name), None)
            cache.remove_node({"metadata": {"name": name}})
        else:
            images = {image: rng.choice([60, 400, 900]) for image in IMAGES if rng.random() < 0.5}
            world.put(node_object({"name": name, "images": images}))
            cache.put_node(world.objects["Node", name])
        if rng.random() < 0.5:
            assert points(cache) == points(world.cache())


def points(cache: Cache) -> dict[str, list[int] | None]:
    session = Session(cache.snapshot())
    numbers = {state.group.name: session.class_of(state, 0).images for state in session.active}
    return {
        name: None if number == NO_IMAGES else session.images.points(number).tolist()
        for name, number in numbers.items()
    }


def test_nothing_is_kept_of_nodes_that_are_gone() -> None:
    world = Miniature()
    world.add({"queues": [{"name": "default"}], "groups": [{"name": "g", "image": "a:1", "pods": 1}]})
    world.add({"nodes": [{"name": "n1", "images": {"a:1": 900}}, {"name": "n2"}]})
    cache = world.cache()
    assert list(cache.snapshot().images) == ["a:1"]
    cache.put_node(node_object({"name": "n1"}))
    assert not cache.snapshot().images


def test_an_image_that_comes_or_goes_starts_no_cycle() -> None:
    cache = Cache()
    assert cache.put_node(node_object({"name": "n1"}))
    assert not cache.put_node(node_object({"name": "n1", "images": {"a:1": 900}}))
