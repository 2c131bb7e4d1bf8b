from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "parity: every recording; minutes long (pytest -m parity tests/parity)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long runs are for those who ask for them by their marker."""
    if "parity" in config.getoption("-m").replace("not parity", ""):
        return
    long = [item for item in items if item.get_closest_marker("parity")]
    items[:] = [item for item in items if item not in long]
    if long:
        config.hook.pytest_deselected(items=long)
