"""Which nodes are right by the pods that are there: kube-scheduler's rules for affinity, anti-affinity and spread.

Each function answers for all nodes at once, through the sums of topology domains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hekla.scheduler.arrays.resources import Flags, Floats, Ints
from hekla.scheduler.arrays.topology import Domains
from hekla.scheduler.company import Company, PodTerm, SpreadRule
from hekla.scheduler.crowd import Crowd

_EPSILON = 1e-9


def without_sought(crowd: Crowd, company: Company) -> Flags:
    """Nodes without the company a pod seeks. The first of pods that seek each other may go anywhere with the labels."""
    together = crowd.matching_all(company.sought)
    domains = [crowd.domains(term.key) for term in company.sought]
    sums = [domain.sums(together) for domain in domains]
    first = company.seeks_itself and crowd.includes_home(company) and not any(one.any() for one in sums)
    wrong = np.zeros(len(together), dtype=bool)
    for domain, one in zip(domains, sums):
        wrong |= ~domain.has if first else domain.spread_out(one) <= 0
    return wrong


def with_shunned(crowd: Crowd, company: Company, nodes: int) -> Flags:
    """Nodes near pods that a pod shuns."""
    wrong = np.zeros(nodes, dtype=bool)
    for term in company.shunned:
        wrong |= _near(crowd, term, crowd.matching(term, leaving=True)) > 0
    return wrong


def shunned_by_others(crowd: Crowd, kin: int, nodes: int) -> Flags:
    """Nodes near pods that shun pods of this kin."""
    wrong = np.zeros(nodes, dtype=bool)
    for term, count in crowd.shunning(kin):
        wrong |= _near(crowd, term, count) > 0
    return wrong


def without_label(crowd: Crowd, rules: Sequence[SpreadRule], nodes: int) -> Flags:
    """Nodes that belong to no part of the cluster for one of the rules."""
    wrong = np.zeros(nodes, dtype=bool)
    for rule in rules:
        wrong |= ~crowd.domains(rule.term.key).has
    return wrong


def too_uneven(crowd: Crowd, rule: SpreadRule, eligible: Flags) -> Flags:
    """Nodes on which one more pod would break the rule. `eligible` nodes are those whose pods count."""
    domains = crowd.domains(rule.term.key)
    counts, present = _counts(crowd, rule, domains, eligible)
    if not present.any():
        return np.zeros(len(eligible), dtype=bool)
    lowest = counts[present].min() if np.count_nonzero(present) >= rule.min_domains else 0.0
    after = domains.spread_out(np.where(present, counts, 0.0)) + rule.counts_itself
    return after - lowest > rule.max_skew


def liking(crowd: Crowd, company: Company | None, kin: int, candidates: Ints, nodes: int) -> Floats:
    """0 … 100 for each candidate: how much the pods around are liked, and how much they would like to see it."""
    raw = np.zeros(nodes)
    for points, term in company.preferred if company is not None else ():
        raw += points * _near(crowd, term, crowd.matching(term, leaving=True))
    for term, found in crowd.liking(kin):
        raw += _near(crowd, term, found)
    among = raw[candidates]
    width = among.max() - among.min()
    if width <= 0:
        return np.zeros(len(candidates))
    result: Floats = np.floor(100 * (among - among.min()) / width + _EPSILON)
    return result


def _near(crowd: Crowd, term: PodTerm, count: Floats | Ints) -> Floats:
    domains = crowd.domains(term.key)
    return domains.spread_out(domains.sums(count))


def _counts(crowd: Crowd, rule: SpreadRule, domains: Domains, eligible: Flags) -> tuple[Floats, Flags]:
    found = crowd.matching(rule.term, leaving=False)
    return domains.sums(found, eligible), domains.present(eligible)
