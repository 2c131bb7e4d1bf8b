"""The text of a configuration as a document. A key given twice is a mistake: one of the two would be ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def read_document(text: str) -> tuple[Any, list[str]]:
    """The document, and what is wrong with the text."""
    import yaml

    try:
        twice = list(_given_twice(yaml.compose(text, Loader=yaml.SafeLoader), set()))
        return yaml.safe_load(text), twice
    except (yaml.YAMLError, ValueError) as error:
        # Some values, like a day that no month has, are found out only when they are made into something.
        return None, [f"not YAML: {error}"]
    except (LookupError, AttributeError):
        return None, ["not YAML: a value is not what its tag says"]
    except RecursionError:
        return None, ["not YAML anybody could read: too deeply nested"]


def _given_twice(node: Any, seen: set[int]) -> Iterator[str]:
    """`seen` are nodes that are done: an alias may lead back to where it is."""
    import yaml

    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _given_twice(item, seen)
    elif isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    yield f"line {key.start_mark.line + 1}: {key.value} is given twice"
                names.add(key.value)
            yield from _given_twice(value, seen)
