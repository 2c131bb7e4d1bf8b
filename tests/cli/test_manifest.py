from __future__ import annotations

import io
import itertools
import json
import sys
from pathlib import Path

import pytest

from hekla.cli.manifest import BadFile, Document, locate, read_manifest


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return str(path)


def test_each_field_knows_its_line(tmp_path: Path) -> None:
    document = read_manifest(write(tmp_path, "kind: Job\nspec:\n  tasks:\n    - name: a\n    - name: b\n"))[0]
    assert document.line_of("spec.tasks[1].name") == 5
    assert document.line_of("spec.tasks[1].template.spec") == 5
    assert document.line_of("spec.minAvailable") == 2


def test_a_yaml_error_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"job\.yaml:3:\d+: not valid YAML"):
        read_manifest(write(tmp_path, "kind: Job\nspec:\n  a: b: c\n"))


def test_a_lone_star_gets_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match='"\\*" in quotes'):
        read_manifest(write(tmp_path, "policies:\n  - event: *\n    action: RestartJob\n"))


@pytest.mark.parametrize("events", ["*  # any", "[*]", "[PodEvicted, *]", "[*, PodEvicted] # any", "* * 1 * *"])
def test_a_lone_star_gets_its_remedy_wherever_it_stands(tmp_path: Path, events: str) -> None:
    with pytest.raises(BadFile, match=r'job\.yaml:2:.*\n  a lone \* .* "\*" in quotes'):
        read_manifest(write(tmp_path, f"policies:\n  - events: {events}\n    action: RestartJob\n"))


def test_a_product_is_no_lone_star(tmp_path: Path) -> None:
    with pytest.raises(BadFile) as refused:
        read_manifest(write(tmp_path, "a: expr 2 * 3\nb: c: d\n"))
    assert "alias" not in str(refused.value)


def test_slashes_behind_a_value_are_told_to_be_part_of_it(tmp_path: Path) -> None:
    lines = ["minAvailable: 1 // one", "url: http://a//b", 'quoted: "a // b"', "name: a //b", "args: [1 // 2]"]
    document = read_manifest(write(tmp_path, "\n".join(lines)))[0]
    told = "// does not start a comment in YAML, so all of it is the value: write #"
    assert [warning.partition("job.yaml:")[2] for warning in document.warnings] == [f"1: {told}", f"4: {told}"]


def test_slashes_in_texts_that_may_hold_anything_are_left_alone(tmp_path: Path) -> None:
    lines = ["value: a // b", "data: {a: 7 // 2}", "annotations: {half: n // 2}", "stringData: {query: .a // .b}"]
    assert not read_manifest(write(tmp_path, "\n".join(lines)))[0].warnings


def test_a_key_given_twice_is_a_warning_and_the_last_one_counts(tmp_path: Path) -> None:
    document = read_manifest(write(tmp_path, "kind: Job\nname: a\nname: b\n"))[0]
    assert document.obj["name"] == "b"
    assert ":3: 'name' is given twice (first on line 2)" in document.warnings[0]


def test_deep_nesting_is_refused_and_does_not_crash(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="nested too deeply"):
        read_manifest(write(tmp_path, "a: " + "[" * 30000))


def test_aliases_that_would_explode_are_refused(tmp_path: Path) -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    names = "abcdefghij"
    lines += [f"{n}: &{n} [{','.join(['*' + p] * 9)}]" for p, n in itertools.pairwise(names)]
    with pytest.raises(BadFile, match="too large"):
        read_manifest(write(tmp_path, "\n".join(lines)))


def test_dates_stay_text_and_empty_documents_are_left_out(tmp_path: Path) -> None:
    documents = read_manifest(write(tmp_path, "---\n---\nkind: Job\nwhen: 2030-01-01\nmode: 0644\n---\n"))
    assert [document.obj for document in documents] == [{"kind": "Job", "when": "2030-01-01", "mode": 420}]


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", ""])
def test_what_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadFile):
        read_manifest(write(tmp_path, text))


def test_a_missing_file_is_told_plainly() -> None:
    with pytest.raises(BadFile, match="No such file"):
        read_manifest("/does/not/exist.yaml")


def test_a_tab_for_indentation_gets_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="tabs for indentation"):
        read_manifest(write(tmp_path, "spec:\n\tminAvailable: 1\n"))


def test_standard_input_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: b\n c\n: d\n")))
    with pytest.raises(BadFile, match=r"^standard input:\d+:\d+: not valid YAML"):
        read_manifest("-")


def test_json_may_write_a_character_as_two(tmp_path: Path) -> None:
    given = {"tongues": "\N{GRINNING FACE}", "backslash": "\\\\ud83d\\ude00"}
    assert read_manifest(write(tmp_path, json.dumps(given)))[0].obj == given


def test_of_a_long_line_what_is_about_the_mistake_is_shown(tmp_path: Path) -> None:
    line = f'{{"a": "{"x" * 5000}", "here": "\\q", "b": "{"x" * 5000}"}}'
    with pytest.raises(BadFile) as refused:
        read_manifest(write(tmp_path, line))
    assert '"here"' in str(refused.value)
    assert len(str(refused.value)) < 500


def test_several_mappings_are_merged_and_the_first_counts(tmp_path: Path) -> None:
    text = "x: &x {a: 1, b: 1}\ny: &y {a: 2, c: 2}\nz: {<<: [*x, *y], b: 3}\n"
    assert read_manifest(write(tmp_path, text))[0].obj["z"] == {"a": 1, "b": 3, "c": 2}


@pytest.mark.parametrize("merged", ["3", "[1]"])
def test_what_cannot_be_merged_is_refused(tmp_path: Path, merged: str) -> None:
    with pytest.raises(BadFile, match=r"job.yaml:2: << takes a mapping"):
        read_manifest(write(tmp_path, f"a: 1\n<<: {merged}\n"))


@pytest.mark.parametrize(
    "value", ["!!int abc", "!!float x", "!!bool maybe", "!!null x", "!!binary '@'", ".inf", ".NaN"]
)
def test_a_value_that_is_not_what_it_says_is_refused_with_its_line(tmp_path: Path, value: str) -> None:
    with pytest.raises(BadFile, match=r"job.yaml:2: "):
        read_manifest(write(tmp_path, f"a: 1\nb: {value}\n"))


def test_what_is_in_no_file_has_no_line() -> None:
    assert (
        locate(Document({}, "command line", 0), "metadata.name", "too long") == "command line: metadata.name: too long"
    )
