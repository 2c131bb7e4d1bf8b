"""Affinity, anti-affinity and spread against a model that looks at one pod, one node and one neighbour at a time."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.api.kinds import Obj
from hekla.scheduler.cycle import open_plugins
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import Session
from hekla.scheduler.statement import Statement
from hekla.scheduler.trial.miniature import Miniature, short_config

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CONFIG = short_config("allocate", [["predicates"]])

labels = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(["a", "b"]), "tier": st.sampled_from(["web", "db"])}
)
nodes = st.lists(
    st.fixed_dictionaries({}, optional={"zone": st.sampled_from(["z1", "z2", "z3"]), "host": st.just("own")}),
    min_size=1,
    max_size=5,
)
selectors = st.one_of(
    st.none(),
    st.just({}),
    st.fixed_dictionaries({"matchLabels": labels}),
    st.just({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}),
)
TEAMS = {"test": "blue", "other": "red"}
spaces = st.sampled_from([{}, {"matchLabels": {"team": "blue"}}, {"matchLabels": {"team": "red"}}])
terms = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "host"]), "labelSelector": selectors},
    optional={"namespaces": st.sampled_from([["other"], ["test", "other"]]), "namespaceSelector": spaces},
)
rules = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from(["zone", "host"]),
        "labelSelector": selectors,
        "maxSkew": st.integers(1, 2),
        "whenUnsatisfiable": st.just("DoNotSchedule"),
    },
    optional={"minDomains": st.integers(1, 3)},
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        "podAffinity": st.fixed_dictionaries({REQUIRED: st.lists(terms, max_size=2)}),
        "podAntiAffinity": st.fixed_dictionaries({REQUIRED: st.lists(terms, max_size=2)}),
    },
)
pods = st.fixed_dictionaries(
    {"labels": labels, "affinity": affinities},
    optional={"spread": st.lists(rules, max_size=2), "selector": st.just({"zone": "z1"})},
)
placed = st.lists(st.tuples(pods, st.integers(0, 4), st.booleans()), max_size=6)


@settings(max_examples=400, deadline=None)
@given(nodes, placed, st.lists(pods, min_size=1, max_size=3), st.lists(st.integers(0, 4), max_size=2))
def test_the_nodes_a_pod_may_go_to_are_those_of_the_model(
    given_nodes: list[dict[str, str]],
    given_placed: list[tuple[dict[str, Any], int, bool]],
    given_pending: list[dict[str, Any]],
    moves: list[int],
) -> None:
    world = Miniature(CONFIG)
    world.add({"queues": [{"name": "default"}]})
    for space, team in TEAMS.items():
        world.put({"kind": "Namespace", "metadata": {"name": space, "labels": {"team": team}}})
    for line, node_labels in enumerate(given_nodes):
        mine = {key: f"n{line}" if value == "own" else value for key, value in node_labels.items()}
        world.add({"nodes": [{"name": f"n{line}", "labels": mine}]})
    for number, (pod, line, grouped) in enumerate(given_placed):
        there = {"name": f"p-{number}", "node": f"n{line % len(given_nodes)}", "cpu": "1m", **pod}
        there["group"] = "old" if grouped else None
        world.add({"pods": [there]})
    world.add({"groups": [{"name": "old", "min": 0}]})
    world.add({"groups": [{"name": "new", "min": 0, "pods": [{"cpu": "1m", **pod} for pod in given_pending]}]})
    session = Session(world.cache().snapshot())
    tiers = open_plugins(CONFIG, session)
    state = next(state for state in session.groups if state.group.row.key.name == "new")
    statement = Statement(session)
    compare(world, session, tiers, state)
    for position, line in enumerate(moves[: len(given_pending)]):
        at = line % len(given_nodes)
        statement.promise(state, position, at, int(state.group.shape[position]), cleared=False)
        world.objects["Pod", state.group.pods[position].name]["spec"]["nodeName"] = f"n{at}"
        compare(world, session, tiers, state)
    statement.discard()
    for pod in state.group.pods:
        world.objects["Pod", pod.name]["spec"].pop("nodeName", None)
    compare(world, session, tiers, state)


def compare(world: Miniature, session: Session, tiers: Any, state: Any) -> None:
    there = [obj for (kind, _), obj in world.objects.items() if kind == "Pod" and obj["spec"].get("nodeName")]
    node_objects = {name: obj for (kind, name), obj in world.objects.items() if kind == "Node"}
    for position, pod in enumerate(state.group.pods):
        if state.status[position] != PodStatus.PENDING:
            continue
        mask = tiers.node_mask(session.class_of(state, position))
        found = [bool(mask is None or mask[line]) for line in range(len(session.snapshot.nodes))]
        wanted = world.objects["Pod", pod.name]
        assert found == [may_go(wanted, node, there, node_objects) for _, node in sorted(node_objects.items())]


# The model.


def may_go(pod: Obj, node: Obj, there: list[Obj], nodes_: dict[str, Obj]) -> bool:
    own = node["metadata"]["labels"]
    selector = pod["spec"].get("nodeSelector") or {}
    if any(own.get(key) != value for key, value in selector.items()):
        return False
    if not finds_friends(pod, node, there, nodes_):
        return False
    for other in there:
        if any(is_near(term, node, other, nodes_) and hits(term, pod, other) for term in far(pod)):
            return False
        if any(is_near(term, node, other, nodes_) and hits(term, other, pod) for term in far(other)):
            return False
    spread = pod["spec"].get("topologySpreadConstraints") or ()
    return all(stays_even(rule, pod, node, there, nodes_) for rule in spread)


def finds_friends(pod: Obj, node: Obj, there: list[Obj], nodes_: dict[str, Obj]) -> bool:
    wanted = (pod["spec"].get("affinity") or {}).get("podAffinity", {}).get(REQUIRED, [])
    friends = [other for other in there if all(hits(term, pod, other) for term in wanted)]
    if not all(term["topologyKey"] in node["metadata"]["labels"] for term in wanted):
        return False
    anywhere = any(
        term["topologyKey"] in nodes_[friend["spec"]["nodeName"]]["metadata"]["labels"]
        for friend in friends
        for term in wanted
    )
    if not anywhere and all(hits(term, pod, pod) for term in wanted):
        return True
    return all(any(is_near(term, node, friend, nodes_) for friend in friends) for term in wanted)


def far(pod: Obj) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (pod["spec"].get("affinity") or {}).get("podAntiAffinity", {}).get(REQUIRED, [])
    return found


def is_near(term: dict[str, Any], node: Obj, other: Obj, nodes_: dict[str, Obj]) -> bool:
    key, theirs = term["topologyKey"], nodes_[other["spec"]["nodeName"]]["metadata"]["labels"]
    own = node["metadata"]["labels"]
    return key in own and own[key] == theirs.get(key)


def hits(term: dict[str, Any], owner: Obj, other: Obj) -> bool:
    space = other["metadata"]["namespace"]
    named = term.get("namespaces") or []
    if "namespaceSelector" in term:
        team = term["namespaceSelector"].get("matchLabels", {}).get("team")
        inside = space in named or team in (None, TEAMS[space])
    else:
        inside = space in (named or [owner["metadata"]["namespace"]])
    return inside and chosen(term["labelSelector"], other["metadata"]["labels"])


def chosen(selector: dict[str, Any] | None, of: dict[str, str]) -> bool:
    if selector is None:
        return False
    if "matchExpressions" in selector:
        return of.get("tier") != "web"
    return all(of.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def stays_even(rule: dict[str, Any], pod: Obj, node: Obj, there: list[Obj], nodes_: dict[str, Obj]) -> bool:
    keys = [item["topologyKey"] for item in pod["spec"]["topologySpreadConstraints"]]
    selector = pod["spec"].get("nodeSelector") or {}
    counted = [
        one
        for one in nodes_.values()
        if all(key in one["metadata"]["labels"] for key in keys)
        and all(one["metadata"]["labels"].get(key) == value for key, value in selector.items())
    ]
    if any(key not in node["metadata"]["labels"] for key in keys):
        return False
    tally = {one["metadata"]["labels"][rule["topologyKey"]]: 0 for one in counted}
    if not tally:
        return True
    selector = rule["labelSelector"] or {}
    names_somebody = any(selector.values())  # one that names nobody chooses the pod itself, and counts no other
    for other in there if names_somebody else ():
        at = nodes_[other["spec"]["nodeName"]]
        same = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        if same and any(at is one for one in counted) and chosen(rule["labelSelector"], other["metadata"]["labels"]):
            tally[at["metadata"]["labels"][rule["topologyKey"]]] += 1
    lowest = min(tally.values()) if len(tally) >= rule.get("minDomains", 1) else 0
    own = chosen(rule["labelSelector"], pod["metadata"]["labels"])
    return tally[node["metadata"]["labels"][rule["topologyKey"]]] + own - lowest <= rule["maxSkew"]
