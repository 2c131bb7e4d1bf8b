from __future__ import annotations

from ipaddress import IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from hekla.node.pod_network import choose_network
from hekla.node.switch import link_name


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(9, 32)), max_size=8))
def test_the_range_chosen_overlaps_no_route(routes: list[tuple[int, int, int]]) -> None:
    networks = [
        IPv4Network((10 << 24 | second << 16 | third << 8, length), strict=False) for second, third, length in routes
    ]
    found = choose_network(networks)
    assert found.prefixlen == 16
    assert found.is_private
    assert not any(found.overlaps(each) for each in networks)


def test_where_everything_is_routed_a_range_is_chosen_all_the_same() -> None:
    everything = [IPv4Network("10.0.0.0/8"), IPv4Network("172.16.0.0/12")]
    assert choose_network(everything).is_private


def test_the_range_used_before_is_kept_while_it_is_free() -> None:
    assert choose_network([], "10.200.0.0/16") == IPv4Network("10.200.0.0/16")
    assert choose_network([IPv4Network("10.200.3.0/24")], "10.200.0.0/16") == IPv4Network("10.77.0.0/16")


def test_link_names_fit_and_differ() -> None:
    assert link_name("0175b15f-4fae-4fab-ab2c-13527e3f7d91") == "v0175b15f4fae4"
    assert len(link_name("x" * 40)) <= 15
