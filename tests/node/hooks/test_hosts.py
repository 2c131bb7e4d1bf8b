from __future__ import annotations

from hekla.api.kinds import Obj
from hekla.node.hooks.hosts import hosts_file, pod_hostname, resolv_conf


def a_pod(**spec: object) -> Obj:
    return {"metadata": {"name": "job-worker-0", "namespace": "team"}, "spec": spec}


def test_the_hostname_is_the_pods_name_unless_it_gives_another() -> None:
    assert pod_hostname(a_pod()) == "job-worker-0"
    assert pod_hostname(a_pod(hostname="h")) == "h"
    long = a_pod()
    long["metadata"]["name"] = "a" * 62 + "-b"
    assert pod_hostname(long) == "a" * 62


def test_a_pod_finds_itself_in_its_hosts_file() -> None:
    text = hosts_file(
        a_pod(hostname="h", subdomain="s", hostAliases=[{"ip": "1.2.3.4", "hostnames": ["x", "y"]}]), "10.0.0.2"
    )
    assert "10.0.0.2\th.s.team.svc.cluster.local\th\n" in text
    assert "1.2.3.4\tx\ty\n" in text


def test_names_are_searched_as_in_a_cluster() -> None:
    assert resolv_conf(a_pod(), "10.77.0.1") == (
        "nameserver 10.77.0.1\nsearch team.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
    )


def test_a_pod_may_bring_its_own_dns() -> None:
    config = {"nameservers": ["9.9.9.9"], "searches": ["example.org"], "options": [{"name": "ndots", "value": "1"}]}
    assert resolv_conf(a_pod(dnsPolicy="None", dnsConfig=config), "10.77.0.1") == (
        "nameserver 9.9.9.9\nsearch example.org\noptions ndots:1\n"
    )
