"""Amounts that are hardly meant."""

from __future__ import annotations

import pytest

from hekla.admission.amounts import amount_warnings


def warned(amount: object, *, side: str = "limits", name: str = "memory") -> list[str]:
    return amount_warnings({"containers": [{"resources": {side: {name: amount}}}]}, "spec")


def test_thousandths_of_a_byte_are_told_with_their_place() -> None:
    text = "512m is 0.512 bytes, too few for anything: Mi or Gi?"
    assert warned("512m") == [f"spec.containers[0].resources.limits[memory]: {text}"]


@pytest.mark.parametrize("few", ["8", 8, "64k", "1e3", "0.5"])
def test_few_bytes_are_told(few: object) -> None:
    assert len(warned(few, side="requests")) == 1
    assert len(warned(few, name="ephemeral-storage")) == 1


@pytest.mark.parametrize("amount", ["64Mi", "1G", 0, "0", "lots"])
def test_what_is_enough_or_none_or_refused_is_not(amount: object) -> None:
    assert warned(amount) == []


def test_other_resources_may_be_few() -> None:
    assert warned("500m", name="cpu") == []
    assert warned(1, name="nvidia.com/gpu") == []


def test_millions_of_cpus_are_told() -> None:
    text = "100M is 100000000 CPUs, more than any machine has: m?"
    assert warned("100M", name="cpu") == [f"spec.containers[0].resources.limits[cpu]: {text}"]
    assert warned("1k", name="cpu") == []
