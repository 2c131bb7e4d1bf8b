from __future__ import annotations

import os
from pathlib import Path

import pytest

from hekla.node.hooks.images import Image, ImageError, Images, command_line, read_table, without_tag

_TOOL = Image(entrypoint=("tool",), command=("--help",))


@pytest.mark.parametrize(
    ("container", "image", "expected"),
    [
        ({"command": ["a"], "args": ["b"]}, None, ["a", "b"]),
        ({}, _TOOL, ["tool", "--help"]),
        ({"args": ["x"]}, _TOOL, ["tool", "x"]),
        ({"command": ["y"]}, _TOOL, ["y"]),
        ({"args": ["z"]}, Image(), ["z"]),
    ],
)
def test_command_and_image_combine_as_in_kubernetes(
    container: dict[str, object], image: Image | None, expected: list[str]
) -> None:
    assert command_line({"name": "main", "image": "any", **container}, image) == expected


@pytest.mark.parametrize(("image", "said"), [(None, "is not mapped"), (Image(), "without entrypoint and command")])
def test_neither_command_nor_mapping_says_exactly_that(image: Image | None, said: str) -> None:
    with pytest.raises(ImageError, match=f'gives no command and image "nginx" .*{said}.*--images'):
        command_line({"name": "main", "image": "nginx"}, image)


def test_everything_an_image_brings_is_read(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    path.write_text(
        """
        tool:
          root: base.tar
          layers: [one, /two]
          entrypoint: [tool]
          command: [--level, 3]
          environment: {A: 1}
          workingDir: /srv
          hint: make it
        bare:
        """
    )
    assert read_table(path) == {
        "tool": Image(
            root=tmp_path / "base.tar",
            layers=(tmp_path / "one", Path("/two")),
            entrypoint=("tool",),
            command=("--level", "3"),
            environment={"A": "1"},
            working_dir="/srv",
            hint="make it",
        ),
        "bare": Image(),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2", "images.yaml"),
        ("[1, 2]", "expected a mapping of image names"),
        ("tool: !!bool maybe", "a value is not what its tag says"),
        ("tool: x", "tool: expected a mapping of root, layers"),
        ("tool: {entrypont: [x]}", "tool: unknown key entrypont; known are root"),
        ("tool: {entrypoint: x}", "tool: entrypoint must be a list"),
        ("tool: {environment: [x]}", "tool: environment must be a mapping"),
        ("tool: {workingDir: srv}", "tool: workingDir must begin with /"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "images.yaml"
    path.write_text(text)
    with pytest.raises(ImageError, match=said):
        read_table(path)


def test_a_name_is_found_whole_or_without_its_tag(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    path.write_text("ray: {command: [any]}\nray:2: {command: [two]}")
    images = Images(path)
    found = [(image := images.find(name)) and image.command for name in ("ray:2", "ray:3", "ray", "ray@sha256:0", "r")]
    assert found == [("two",), ("any",), ("any",), ("any",), None]
    assert without_tag("registry:5000/ray") == "registry:5000/ray"
    assert without_tag("registry:5000/ray:2@sha256:0") == "registry:5000/ray"


def test_a_changed_table_counts_and_a_broken_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    path.write_text("a: {command: [one]}")
    images = Images(path)
    for step, (text, expected) in enumerate([("a: {command: [two]}", "two"), ("a: {comma: ", "two")], start=1):
        path.write_text(text)
        os.utime(path, (step, step))
        found = images.find("a")
        assert found is not None
        assert found.command == (expected,)


def test_a_table_that_comes_later_counts_from_then_on(tmp_path: Path) -> None:
    images = Images(tmp_path / "images.yaml")
    assert images.find("a") is None
    (tmp_path / "images.yaml").write_text("a: {command: [one]}")
    found = images.find("a")
    assert found is not None
    assert found.command == ("one",)
