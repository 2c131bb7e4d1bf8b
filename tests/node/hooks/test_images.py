from __future__ import annotations

from pathlib import Path

import pytest

from hekla.node.hooks.images import Image, ImageError, command_line, load_images

_IMAGES = {"tool": Image(entrypoint=("tool",), command=("--help",))}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"image": "any", "command": ["a"], "args": ["b"]}, ["a", "b"]),
        ({"image": "tool"}, ["tool", "--help"]),
        ({"image": "tool", "args": ["x"]}, ["tool", "x"]),
        ({"image": "tool", "command": ["y"]}, ["y"]),
    ],
)
def test_command_and_image_combine_as_in_kubernetes(container: dict[str, object], expected: list[str]) -> None:
    assert command_line({"name": "main", **container}, _IMAGES)[0] == expected


def test_neither_command_nor_mapping_says_exactly_that() -> None:
    with pytest.raises(ImageError, match='gives no command and image "nginx" is not mapped'):
        command_line({"name": "main", "image": "nginx"}, {})


def test_the_table_is_read_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    assert load_images(path) == {}
    path.write_text("tool: {entrypoint: [tool], environment: {A: 1}}")
    assert load_images(path)["tool"] == Image(entrypoint=("tool",), environment={"A": "1"})
    path.write_text("[1, 2")
    with pytest.raises(ImageError, match=r"images\.yaml"):
        load_images(path)
