"""The files by which a pod knows its own name and finds others': /etc/hostname, /etc/hosts, /etc/resolv.conf."""

from __future__ import annotations

from hekla.api.kinds import Obj

CLUSTER_DOMAIN = "cluster.local"
_HOSTNAME_LENGTH = 63


def pod_hostname(pod: Obj) -> str:
    name = str(pod["spec"].get("hostname") or pod["metadata"]["name"])
    return name[:_HOSTNAME_LENGTH].rstrip("-.")


def full_name(pod: Obj) -> str:
    """The pod's name in the cluster's DNS; empty for a pod without a subdomain."""
    subdomain = pod["spec"].get("subdomain")
    if not subdomain:
        return ""
    return f"{pod_hostname(pod)}.{subdomain}.{pod['metadata'].get('namespace', '')}.svc.{CLUSTER_DOMAIN}"


def hosts_file(pod: Obj, address: str) -> str:
    lines = [
        "# Written by the node for this pod.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
    ]
    names = [name for name in (full_name(pod), pod_hostname(pod)) if name]
    if address:
        lines.append("\t".join([address, *names]))
    for alias in pod["spec"].get("hostAliases") or ():
        lines.append("\t".join([alias["ip"], *(alias.get("hostnames") or ())]))
    return "\n".join(lines) + "\n"


def resolv_conf(pod: Obj, nameserver: str) -> str:
    """What `dnsPolicy: ClusterFirst` gives; `None` and `dnsConfig` are honoured."""
    namespace = pod["metadata"].get("namespace", "")
    config = pod["spec"].get("dnsConfig") or {}
    servers, search, options = [nameserver], _search(namespace), ["ndots:5"]
    if pod["spec"].get("dnsPolicy") == "None":
        servers, search, options = [], [], []
    servers += config.get("nameservers") or []
    search += config.get("searches") or []
    options += [
        f"{each['name']}:{each['value']}" if each.get("value") else each["name"] for each in config.get("options") or ()
    ]
    lines = [f"nameserver {server}" for server in dict.fromkeys(servers)]
    if search:
        lines.append("search " + " ".join(dict.fromkeys(search)))
    if options:
        lines.append("options " + " ".join(options))
    return "\n".join(lines) + "\n"


def _search(namespace: str) -> list[str]:
    return [f"{namespace}.svc.{CLUSTER_DOMAIN}", f"svc.{CLUSTER_DOMAIN}", CLUSTER_DOMAIN]
