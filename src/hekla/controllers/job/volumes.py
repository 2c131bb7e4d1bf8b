"""The PersistentVolumeClaims of a Job: names for the ones to create, and a clear word about the ones that miss."""

from __future__ import annotations

import random
from copy import deepcopy

from hekla.api.kinds import JOB, PERSISTENT_VOLUME_CLAIM, Obj
from hekla.api.meta import is_owned_by, owner_reference
from hekla.client.rest import Client
from hekla.controllers.job.model import Job
from hekla.controllers.job.pods import random_suffix
from hekla.errors import AlreadyExists, HeklaError

RECORD = "volume-pvc-"


class ClaimMissing(HeklaError):
    pass


def claims_of(job: Job) -> dict[str, str]:
    """Claim names and where they are mounted."""
    claims: dict[str, str] = {}
    # parity: a second volume of the same claim is skipped entirely.
    for volume in job.obj["spec"].get("volumes") or ():
        if volume.get("volumeClaimName"):
            claims.setdefault(volume["volumeClaimName"], volume["mountPath"])
    return claims


def with_claim_names(job: Job, rng: random.Random) -> Obj | None:
    """The Job with a name for every claim that has to be created; None when all have one.

    The names are stored before any claim is made, so that a claim is made once whatever happens in between.
    """
    volumes = job.obj["spec"].get("volumes") or ()
    if all(volume.get("volumeClaimName") for volume in volumes):
        return None
    named = deepcopy(job.obj)
    for volume in named["spec"]["volumes"]:
        if not volume.get("volumeClaimName"):
            volume["volumeClaimName"] = f"{job.key.name}-pvc-{random_suffix(rng)}"
    return named


async def ensure_claims(client: Client, job: Job) -> None:
    """Create what has to be created. Raises ClaimMissing for a claim that the user was to provide."""
    recorded = (job.obj.get("status") or {}).get("controlledResources") or {}
    for volume in job.obj["spec"].get("volumes") or ():
        name = volume["volumeClaimName"]
        if RECORD + name in recorded or await client.find(PERSISTENT_VOLUME_CLAIM, name, job.key.namespace):
            continue
        if volume.get("volumeClaim") is None:
            raise ClaimMissing(
                f"pvc {name} is not found, the job will be in the Pending state until the PVC is created"
            )
        await _create(client, job, name, volume["volumeClaim"])


async def _create(client: Client, job: Job, name: str, spec: Obj) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": job.key.namespace,
            "ownerReferences": [owner_reference(job.obj, JOB)],
        },
        "spec": spec,
    }
    try:
        await client.create(PERSISTENT_VOLUME_CLAIM, claim)
    except AlreadyExists:
        existing = await client.find(PERSISTENT_VOLUME_CLAIM, name, job.key.namespace)
        if existing is None or not is_owned_by(existing, job.obj):
            raise
