"""PodGroups, pods, CronJobs, JobFlows and HyperNodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hekla.admission.cronjob import validate_cron_job
from hekla.admission.hypernode import validate_hyper_node
from hekla.admission.jobflow import validate_job_flow
from hekla.admission.pod import validate_pod
from hekla.admission.podgroup import default_pod_group, validate_pod_group
from tests import make

TIERS = {"highestTierAllowed": 1, "highestTierName": "x"}
BOTH = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously."


def test_a_namespace_can_name_the_queue_of_its_groups() -> None:
    namespace = {"metadata": {"name": "team", "annotations": {"scheduling.volcano.sh/queue-name": "teams"}}}
    group = make.pod_group("g")
    default_pod_group(group, namespace)
    assert group["spec"]["queue"] == "teams"
    chosen = make.pod_group("g", queue="mine")
    default_pod_group(chosen, namespace)
    assert chosen["spec"]["queue"] == "mine"


def test_faults_of_a_group() -> None:
    missing = make.pod_group("g", queue="nowhere", networkTopology=TIERS)
    assert validate_pod_group(missing, None) == (
        f'unable to find queue: queue.scheduling.volcano.sh "nowhere" not found; {BOTH}'
    )
    assert validate_pod_group(make.pod_group("g"), make.queue("default", "Closed")) == (
        "can only submit PodGroup to queue with state `Open`, queue `default` status is `Closed`."
    )
    policies = [{"name": "s", "networkTopology": TIERS}]
    assert validate_pod_group(make.pod_group("g", subGroupPolicy=policies), make.queue()) == (
        f"in subGroupPolicy 's': {BOTH}"
    )


MIN, MAX = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
BUDGETS = [
    ({MIN: "2"}, ""),
    ({MAX: "50%"}, ""),
    ({MIN: "0"}, f'invalid value <"0"> for {MIN}, it must be a positive integer'),
    ({MAX: "-3"}, f'invalid value <"-3"> for {MAX}, it must be a positive integer'),
    ({MIN: "x"}, f'invalid value strconv.Atoi: parsing "x": invalid syntax for {MIN}'),
    ({MIN: "1.5%"}, f'invalid value strconv.Atoi: parsing "1.5": invalid syntax for {MIN}'),
    ({MIN: "100%"}, f'invalid value <"100%"> for {MIN}, it must be a valid percentage which between 1% ~ 99%'),
    ({MIN: "9" * 19}, f'invalid value strconv.Atoi: parsing "{"9" * 19}": value out of range for {MIN}'),
    ({MIN: "1", MAX: "1"}, f"not allow configure multiple annotations <[{MIN} {MAX}]> at same time"),
]


@pytest.mark.parametrize(("annotations", "message"), BUDGETS)
def test_faults_of_a_pods_budget(annotations: dict[str, str], message: str) -> None:
    ours = make.pod("p", annotations=annotations, spec={"schedulerName": "volcano"})
    assert validate_pod(ours, ("volcano",)) == message
    assert validate_pod(make.pod("p", annotations=annotations), ("volcano",)) == ""


def cron_job(name: str = "c", schedule: str = "*/5 * * * *", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"schedule": schedule, **spec}}


LONG = "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)"
CRON_JOBS = [
    (cron_job(), ""),
    (cron_job(schedule="@every 5m"), ""),
    (cron_job(schedule="0 12 * jan-mar mon,wed"), ""),
    (cron_job("n" * 52), ""),
    (cron_job("n" * 53), LONG),
    (cron_job("n" * 53, "61 * * * *"), f"schedule is not a valid cron expression; {LONG}"),
    (cron_job(schedule=""), "schedule is required, but got empty"),
    (
        cron_job(schedule="TZ=UTC 0 0 * * *"),
        "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
    ),
    (cron_job(timeZone="Europe/Berlin"), ""),
    (cron_job(timeZone=""), "timeZone must be nil or non-empty string, got empty string"),
    (cron_job(timeZone="Nowhere/At-all"), "invalid timeZone"),
    (cron_job(timeZone="No where"), "unknown timeZone invalid timeZone"),
    (cron_job("n" * 64), LONG),
    (cron_job(timeZone="local"), "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"),
]


@pytest.mark.parametrize(("obj", "message"), CRON_JOBS)
def test_faults_of_a_cron_job(obj: dict[str, Any], message: str) -> None:
    assert validate_cron_job(obj) == message


def flow(**targets: list[str]) -> dict[str, Any]:
    flows = [{"name": name, "dependsOn": {"targets": needs}} for name, needs in targets.items()]
    return {"metadata": {"name": "f"}, "spec": {"flows": flows}}


def test_flows_must_lead_somewhere() -> None:
    assert validate_job_flow(flow(a=[], b=["a"])) == ""
    assert validate_job_flow(flow(a=["b"])) == "jobflow Flow is not DAG: vertex is not defined: b"
    assert validate_job_flow(flow(a=["b"], b=["a"])) == "jobflow Flow is not DAG"
    assert validate_job_flow(flow(a=["a"])) == "jobflow Flow is not DAG"


def hyper_node(pattern: str) -> dict[str, Any]:
    return {"spec": {"members": [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]}}


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("node-[0-9]+", ""),
        (r"a\\(?:b|c)\\d", ""),
        ("[", "missing closing ]: `[`"),
        ("a(b", "missing closing ): `a(b`"),
        ("a)", "unexpected ): `a)`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        (r"\y", r"invalid escape sequence: `\y`"),
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        ("a++", "invalid nested repetition operator: `++`"),
        ("a*?{2}", "invalid nested repetition operator: `*?{2}`"),
        ("(|*)", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("[a-", "missing closing ]: `[a-`"),
        ("[]", "missing closing ]: `[]`"),
        ("[[:digits:]]", "invalid character class range: `[:digits:]`"),
        (r"[\x61-\x5a]", r"invalid character class range: `\x61-\x5a`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
        ("(?i", "missing closing ): `(?i`"),
        ("(?>a)", "invalid or unsupported Perl syntax: `(?>`"),
        (r"^rack-(?<row>\d+)[[:alpha:]]{1,3}\.\pL\p{Greek}\z", ""),
        (r"a(?i)b|(?s-m:c.)(?P<n>d)*?", ""),
        (r"\Qa(b\E+[^]\x00-\x7f\n\-]{2,}x{,3}{", ""),
    ],
)
def test_a_hyper_nodes_pattern_must_be_one(pattern: str, fault: str) -> None:
    where = f"[].spec.members.selector.regexMatch.pattern: Invalid value: {json.dumps(pattern)}:"
    expected = f"{where} member regexMatch pattern is invalid: error parsing regexp: {fault}" if fault else ""
    assert validate_hyper_node(hyper_node(pattern)) == expected
