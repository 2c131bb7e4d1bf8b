from __future__ import annotations

from pathlib import Path

import pytest

from hekla.cli.image_tables import unused_table
from tests import make

TABLE = "tool: {{layers: ['{layer}'], hint: fetch it}}"


def a_job(image: str) -> dict[str, object]:
    return make.job("demo", make.task(pod={"containers": [{"name": "main", "image": image}]}))


@pytest.mark.parametrize("place", ["job", "."])
def test_a_table_beside_the_file_or_its_folder_is_named_with_what_it_needs_first(tmp_path: Path, place: str) -> None:
    (tmp_path / "job").mkdir()
    file, table = str(tmp_path / "job" / "job.yaml"), tmp_path / place / "images.yaml"
    table.write_text(TABLE.format(layer=tmp_path / "layer"))
    told = unused_table(file, a_job("tool:1"))
    assert told == (
        f"image 'tool:1' is this machine's own files; {table} says what it would bring (first fetch it); "
        f"to have it:  hekla run --images {table} {file}"
    )
    (tmp_path / "layer").mkdir()
    assert "first" not in unused_table(file, a_job("tool:1"))


@pytest.mark.parametrize("text", ["other: {}", "tool: [", "- no table"])
def test_another_file_of_that_name_is_none_of_our_business(tmp_path: Path, text: str) -> None:
    (tmp_path / "images.yaml").write_text(text)
    assert unused_table(str(tmp_path / "job.yaml"), a_job("tool:1")) == ""


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {"tasks": "tool"},
        {"tasks": [None]},
        {"tasks": [{"template": "tool"}]},
        {"tasks": [{"template": {"spec": {"containers": ["tool"]}}}]},
    ],
)
def test_of_a_file_that_is_wrong_nothing_is_said_here(tmp_path: Path, spec: object) -> None:
    (tmp_path / "images.yaml").write_text("tool: {}")
    assert unused_table(str(tmp_path / "job.yaml"), {"kind": "Job", "metadata": {"name": "a"}, "spec": spec}) == ""
