from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api import quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("500m", Decimal("0.5")), ("2Gi", 2 << 30), ("1e3", 1000), ("1E3", 1000), ("3k", 3000),
     (".5", Decimal("0.5")), ("1E", 10**18), ("100n", Decimal("1e-7")), ("-2", -2), (4, 4), (1.5, Decimal("1.5"))],
)  # fmt: skip
def test_a_quantity_is_parsed_exactly(text: str | float, value: Decimal | int) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "1KiB", "1 Gi", "Gi", "0x10", "1e", "9" * 100, "1e999999"])
def test_what_is_not_a_quantity_is_refused(text: str) -> None:
    with pytest.raises(quantity.InvalidQuantity):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"),
        ("1000", "1k"),
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1500m", "1500m"),
        ("0", "0"),
        ("1Ki", "1Ki"),
    ],
)
def test_the_canonical_form_is_the_api_servers(text: str, canonical: str) -> None:
    assert quantity.canonical(text) == canonical


@given(st.integers(-(10**18), 10**18))
def test_thousandths_survive_formatting_and_parsing(thousandths: int) -> None:
    value = Decimal(thousandths) / 1000
    assert quantity.parse(quantity.format_decimal(value)) == value


@given(st.integers(0, 2**62))
def test_bytes_survive_binary_formatting_and_parsing(number: int) -> None:
    assert quantity.whole(quantity.format_binary(number)) == number


def test_accessors_round_up_as_the_api_server_does() -> None:
    assert quantity.milli("1n") == 1
    assert quantity.whole("1m") == 1
