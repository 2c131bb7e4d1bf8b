"""The one path of every write: shape, default, admit, check, commit.

`create`, `update` and `delete` each read the newest state, decide what it becomes and commit under a guard. Where
admission is asked, other writes may come between; the guard notices and the write is decided again from the top.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from hekla.api.kinds import NAMESPACE, Kind, Obj
from hekla.api.meta import timestamp
from hekla.apiserver import alike
from hekla.apiserver.access.escalation import Escalation
from hekla.apiserver.access.user import ADMIN, User
from hekla.apiserver.addresses import Addresses
from hekla.apiserver.admitting import Admitter
from hekla.apiserver.checking import check, same
from hekla.apiserver.claim_admission import ClaimAdmission
from hekla.apiserver.defaults import DEFAULTERS, default_pod_status
from hekla.apiserver.definitions import load_definitions
from hekla.apiserver.deleting import DeleteOptions, check_preconditions, decide_delete, is_finished
from hekla.apiserver.identity import (
    Uids,
    bump_generation,
    carry_metadata,
    drop_empty,
    drop_repeated_owners,
    prepare_metadata,
)
from hekla.apiserver.invalid import Problem, forbidden, invalid, refusal
from hekla.apiserver.limit_ranges import LimitRanges
from hekla.apiserver.pod_admission import PodAdmission, carry_priority
from hekla.apiserver.quotas import Quotas
from hekla.apiserver.request import conflict, modified, name_details, not_found
from hekla.apiserver.resource import DEFINITIONS_RESOURCE, Resource
from hekla.apiserver.rules import rule_problems
from hekla.apiserver.services import carry_service
from hekla.apiserver.shaping import WrongType, decode_shape, drop_nulls, fill_defaults, prune
from hekla.apiserver.store.store import KEEP, Entry, Guard, Keep, Key, Remove, Store
from hekla.apiserver.unattended import unattended_warnings
from hekla.apiserver.validation import (
    CREATE_VALIDATORS,
    UPDATE_VALIDATORS,
    VALIDATORS,
    validate_finalizers,
    validate_metadata,
)
from hekla.clock import Clock
from hekla.errors import AlreadyExists, ApiError, BadRequest, Forbidden, InternalError, Invalid, MethodNotAllowed

_encode = msgspec.json.Encoder().encode
_PODS = "/pods"
_SERVICES = "/services"
_CLAIMS = "/persistentvolumeclaims"
_NOTHING = frozenset[str]()
# What their status says is true of one cluster at one moment: a file that brings one along was saved from another.
_COUNTED_FOR = frozenset({"/resourcequotas", "policy/poddisruptionbudgets"})
# Of many objects in one request, so many are prepared before others get their turn.
_BETWEEN_BREATHS = 16
_CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


@dataclass(slots=True)
class Options:
    """How a write was asked for. `warnings` collects what the answer's headers will say."""

    dry_run: bool = False
    strict: bool = False
    quiet: bool = False
    warnings: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    user: User = ADMIN


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object to be created. It will be changed."""

    resource: Resource
    namespace: str
    obj: Obj


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write: the object's bytes, and whether it is gone now."""

    value: bytes
    removed: bool = False
    created: bool = False


class Malformed(BadRequest):
    """The object has not the shape of its kind; `why` says where."""

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')
        self.why = why


class Transform(Protocol):
    """What an update makes of an object. Without `reads_current` it is the same whatever the object is."""

    @property
    def reads_current(self) -> bool: ...

    def __call__(self, current: Obj) -> Obj:
        """`current` is for the answer to use, and to change."""


class _Stale(Exception):
    """The object changed between decision and commit."""


class Writer:
    def __init__(
        self,
        store: Store,
        escalation: Escalation,
        *,
        clock: Clock,
        rng: random.Random,
        admitter: Admitter | None = None,
    ) -> None:
        self._store = store
        self._escalation = escalation
        self._clock = clock
        self._rng = rng
        self._uids = Uids(rng)
        self._admitter = admitter
        self._addresses = Addresses(store, rng)
        self._pods = PodAdmission(store, clock=clock, rng=rng)
        self._claims = ClaimAdmission(store)
        self._ranges = LimitRanges(store)
        self._quotas = Quotas(store, clock=clock)

    async def create(self, resource: Resource, namespace: str, obj: Obj, options: Options) -> Written:
        key, guard = await self._prepare(resource, namespace, obj, options)
        return Written(await self._commit(key, guard, options.dry_run), created=True)

    async def create_all(self, wanted: Sequence[Wanted | ApiError], user: User = ADMIN) -> list[bytes | ApiError]:
        """Each object as `create` would make it, in one transaction; what is refused (already, or here) does not stop
        the others."""
        results: list[bytes | ApiError] = [b""] * len(wanted)
        writes: list[tuple[Key, Guard]] = []
        places: list[int] = []
        for place, each in enumerate(wanted):
            if isinstance(each, ApiError):
                results[place] = each
                continue
            try:
                options = Options(quiet=True, user=user)
                writes.append(await self._prepare(each.resource, each.namespace, each.obj, options))
                places.append(place)
            except ApiError as error:
                results[place] = error
            if place % _BETWEEN_BREATHS == _BETWEEN_BREATHS - 1:
                await asyncio.sleep(0)
        for place, result in zip(places, await self._store.write_all(writes, together=False), strict=True):
            results[place] = _value_or_refusal(result)
        return results

    async def _prepare(self, resource: Resource, namespace: str, obj: Obj, options: Options) -> tuple[Key, Guard]:
        """Everything about a creation but its commit."""
        kind = resource.kind
        if resource.definition is not None and resource.definition["metadata"].get("deletionTimestamp"):
            raise MethodNotAllowed("create not allowed while custom resource definition is terminating", details={})
        # 1. The object gets the shape of its kind and the metadata only the server writes.
        self._shape(resource, obj, options)
        if obj["metadata"].get("resourceVersion"):
            raise ApiError("resourceVersion should not be set on objects to be created", reason="")
        prepare_metadata(obj, resource, namespace, now=self._clock.now(), rng=self._rng, uids=self._uids)
        if resource.has_status and (resource.is_custom or resource.storage in _COUNTED_FOR):
            obj.pop("status", None)
        self._default(resource, obj)
        # 2. Admission: the built-in kind first, then ours.
        if kind.namespaced:
            self._check_namespace(resource, namespace, str(obj["metadata"].get("name", "")))
        if resource.storage == _PODS:
            self._ranges.fill_in(obj)
            await self._pods.admit(obj)
        elif resource.storage == _CLAIMS:
            self._claims.admit(obj)
        admitted = self._admitter is not None and self._admitter.interested(resource, "CREATE")
        if admitted:
            obj = await self._mutate(resource, "CREATE", obj, None, options)
        if resource.storage == _PODS:
            default_pod_status(obj)
        # 3. Everything that is wrong with it, at once.
        self._check(resource, obj, None)
        if resource.storage in (_PODS, _CLAIMS):
            self._ranges.check(kind, obj)
        self._escalation.check(options.user, kind, obj, None)
        if admitted:
            assert self._admitter is not None
            options.warnings += await self._admitter.validate(
                resource, "CREATE", obj, None, options.dry_run, options.user
            )
        options.warnings += unattended_warnings(kind)
        if resource.storage == DEFINITIONS_RESOURCE:
            _establish(obj, self._clock)
        # 4. To be committed, unless the name is taken or the namespace has no room for it.
        key = Key(resource.storage, namespace if kind.namespaced else "", obj["metadata"]["name"])
        return key, self._assigning(key, self._quotas.limiting(kind, _Create(kind, obj)))

    async def update(
        self, resource: Resource, key: Key, transform: Transform, options: Options, *, subresource: str = ""
    ) -> Written:
        """`transform` turns the object as it is into the object wanted; it may be called again."""
        while True:
            entry = self._store.newest(key)
            if entry is None:
                raise not_found(resource.kind, key.name)
            try:
                return await self._update(resource, key, entry, transform, options, subresource)
            except _Stale:
                continue

    async def delete(self, resource: Resource, key: Key, options: DeleteOptions, user: User = ADMIN) -> Written:
        while True:
            entry = self._store.newest(key)
            if entry is None:
                raise not_found(resource.kind, key.name)
            obj = entry.decode()
            check_preconditions(obj, resource, options)
            if self._admitter is not None and self._admitter.interested(resource, "DELETE"):
                await self._admitter.validate(resource, "DELETE", None, obj, options.dry_run, user)
            answer = decide_delete(obj, resource, options, self._clock.now())
            try:
                value = await self._commit(key, _Replace(entry, answer), options.dry_run)
            except _Stale:
                continue
            return Written(value, removed=isinstance(answer, Remove))

    async def _update(
        self, resource: Resource, key: Key, entry: Entry, transform: Transform, options: Options, subresource: str
    ) -> Written:
        old = entry.decode()
        # 1. What is wanted, in the shape of its kind; what this write may not touch stays as it is.
        new = transform(entry.decode() if transform.reads_current else {})
        as_it_was = _in_common(new, old)
        self._shape(resource, new, options, as_it_was)
        _check_identity(new, old, resource)
        new["metadata"].pop("resourceVersion", None)
        if subresource == "status":
            new = _status_update(new, old, resource)
            as_it_was = _in_common(new, old)
        carry_metadata(new, old)
        if resource.storage == _SERVICES and not subresource:
            carry_service(new, old)
        if resource.storage == _PODS and not subresource:
            carry_priority(new, old)
        if resource.has_status and not subresource:
            _keep(new, old, "status")
        self._default(resource, new)
        # 2. Admission looks at the object itself, not at its status.
        admitter = self._admitter
        admitted = not subresource and admitter is not None and admitter.interested(resource, "UPDATE")
        if admitted:
            new = await self._mutate(resource, "UPDATE", new, old, options)
            as_it_was = _in_common(new, old)
        if subresource != "status":
            bump_generation(new, old, resource)
        self._check(resource, new, old, as_it_was, subresource)
        if resource.storage == _CLAIMS and not subresource and not old["metadata"].get("deletionTimestamp"):
            self._ranges.check(resource.kind, new)
        self._escalation.check(options.user, resource.kind, new, old)
        if admitted and admitter is not None:
            options.warnings += await admitter.validate(resource, "UPDATE", new, old, options.dry_run, options.user)
        # 3. Nothing changed: no new revision. Last finalizer gone: gone.
        answer: Obj | Remove | Keep = new
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if is_finished(new):
            answer = Remove(new)
        elif new == old:
            answer = KEEP
        guard: Guard = _Replace(entry, answer)
        if not subresource:
            guard = self._quotas.limiting(resource.kind, guard, update=True)
        value = await self._commit(key, self._assigning(key, guard), options.dry_run)
        return Written(value, removed=isinstance(answer, Remove))

    async def _mutate(self, resource: Resource, operation: str, obj: Obj, old: Obj | None, options: Options) -> Obj:
        """What admission makes of an object is as good as what a person sent: it, too, gets the shape of its kind."""
        assert self._admitter is not None
        mutated = await self._admitter.mutate(resource, operation, obj, old, options.dry_run, options.user)
        if mutated is None:
            return obj
        try:
            self._shape(resource, mutated, Options(quiet=True))
        except Malformed as error:
            raise InternalError(f"Internal error occurred: {error.why}") from None
        if resource.is_custom and resource.has_status:
            _keep(mutated, old or {}, "status")
        # parity: a null that admission wrote is a value of the wrong type.
        self._default(resource, mutated, nulls=True)
        return mutated

    def _assigning(self, key: Key, guard: Guard) -> Guard:
        return _Assign(self._addresses, key, guard) if key.resource == _SERVICES else guard

    async def _commit(self, key: Key, guard: Guard, dry_run: bool) -> bytes:
        if not dry_run:
            return (await self._store.write(key, guard)).value
        current = self._store.newest(key)
        answer = guard(current)
        if isinstance(answer, Keep):
            assert current is not None
            return current.value
        return _encode(answer.obj if isinstance(answer, Remove) else answer)

    def _shape(self, resource: Resource, obj: Obj, options: Options, as_it_was: frozenset[str] = _NOTHING) -> None:
        """Fields that are `as_it_was` stored have their shape already."""
        kind = resource.kind
        unknown: list[str] = []
        obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
        if not isinstance(obj.get("metadata"), dict):
            obj["metadata"] = {}
        try:
            if resource.is_custom:
                if "metadata" not in as_it_was:
                    # parity: what cannot be read here is named without the field it stands in.
                    unheard: list[str] = []
                    decode_shape(obj["metadata"], load_definitions().object_meta(), unheard)
                    unknown += [f"metadata.{field}" for field in unheard]
                _prune_custom(resource, obj, unknown, as_it_was)
            else:
                decode_shape(obj, resource.schema, unknown, but=alike.shaped(obj, resource.schema, as_it_was))
        except WrongType as error:
            raise Malformed(kind, str(error)) from None
        drop_empty(obj["metadata"])
        drop_repeated_owners(obj["metadata"])
        if not options.quiet:
            _report(kind, unknown, options)

    def _default(self, resource: Resource, obj: Obj, *, nulls: bool = False) -> None:
        if resource.is_custom:
            filled = alike.fill(obj, resource.schema, nulls=nulls)
            if not nulls:
                drop_nulls(obj, resource.schema, but=filled)
            fill_defaults(obj, resource.schema, but=filled)
        else:
            defaulter = DEFAULTERS.get(resource.storage)
            if defaulter is not None:
                defaulter(obj)

    def _check(
        self,
        resource: Resource,
        obj: Obj,
        old: Obj | None,
        as_it_was: frozenset[str] = _NOTHING,
        subresource: str = "",
    ) -> None:
        """What got in under older rules must not keep its object from being reported on, changed or deleted."""
        problems = _metadata_problems(resource, obj) if "metadata" not in as_it_was else []
        if problems and old is not None:
            known = _metadata_problems(resource, old)
            problems = [each for each in problems if each not in known]
        if resource.is_custom:
            right = alike.right(obj, resource.schema, as_it_was)
            problems += (_status_problems if subresource == "status" else _field_problems)(resource, obj, old, right)
            problems += rule_problems(obj, resource.schema, problems, old)
        elif "spec" not in as_it_was and not (old is not None and _says_the_same(obj, old, as_it_was)):
            validator = VALIDATORS.get(resource.storage)
            problems += validator(obj) if validator is not None else []
        if old is None:
            validator = CREATE_VALIDATORS.get(resource.storage)
            problems += validator(obj) if validator is not None else []
        else:
            rule = UPDATE_VALIDATORS.get(resource.storage)
            problems += rule(obj, old) if rule is not None else []
            problems += _finalizer_problems(obj, old)
        if problems:
            raise refusal(resource.kind, str(obj["metadata"].get("name", "")), problems)

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        entry = self._store.newest(Key("/namespaces", "", namespace))
        if entry is None:
            raise not_found(NAMESPACE, namespace)
        if b'"deletionTimestamp":' in entry.value:
            details = name_details(resource.kind, name)
            details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise Forbidden(
                f'{resource.kind.resource} "{name}" is forbidden: unable to create new content in namespace '
                f"{namespace} because it is being terminated",
                details=details,
            )


class _Create:
    """A guard: the object, unless there is one of that name."""

    def __init__(self, kind: Kind, obj: Obj) -> None:
        self._kind = kind
        self._obj = obj

    def __call__(self, current: Entry | None) -> Obj:
        if current is not None:
            name = self._obj["metadata"]["name"]
            raise AlreadyExists(
                f'{self._kind.resource} "{name}" already exists', details=name_details(self._kind, name)
            )
        return self._obj


class _Replace:
    """A guard: the answer decided from `entry`, provided that is still the newest."""

    def __init__(self, entry: Entry, answer: Obj | Remove | Keep) -> None:
        self._entry = entry
        self._answer = answer

    def __call__(self, current: Entry | None) -> Obj | Remove | Keep:
        if current is not self._entry:
            raise _Stale
        return self._answer


class _Assign:
    """A guard: what another decides, with addresses and ports for a Service that needs them."""

    def __init__(self, addresses: Addresses, key: Key, inner: Guard) -> None:
        self._addresses = addresses
        self._key = key
        self._inner = inner

    def __call__(self, current: Entry | None) -> Obj | Remove | Keep:
        answer = self._inner(current)
        if isinstance(answer, dict):
            self._addresses.assign(answer, self._key)
        return answer


def _value_or_refusal(result: Entry | Exception | None) -> bytes | ApiError:
    if isinstance(result, Entry):
        return result.value
    if isinstance(result, ApiError):
        return result
    assert result is not None
    raise result


def _metadata_problems(resource: Resource, obj: Obj) -> list[Problem]:
    problems = validate_metadata(obj, resource.kind)
    if resource.is_custom or resource.storage == DEFINITIONS_RESOURCE:
        return problems
    return problems + validate_finalizers(obj)


def _says_the_same(new: Obj, old: Obj, as_it_was: frozenset[str]) -> bool:
    """But for its metadata: kinds without a spec have what they say beside it."""
    return all(name in as_it_was for name in {*new, *old} if name != "metadata")


def _in_common(new: Obj, old: Obj) -> frozenset[str]:
    """The fields that are written in both alike."""
    return frozenset(name for name, value in new.items() if name in old and same(old[name], value))


def _prune_custom(resource: Resource, obj: Obj, unknown: list[str], as_it_was: frozenset[str]) -> None:
    first = {name: obj.pop(name) for name in ("apiVersion", "kind", "metadata")}
    rest = dict(obj)
    known = alike.pruned(obj, resource.schema, as_it_was)
    fresh = {name: value for name, value in rest.items() if name not in known}
    kept = dict(fresh)
    prune(kept, resource.schema, unknown)
    obj.clear()
    obj.update(first)
    obj.update((name, value) for name, value in rest.items() if name in kept or name not in fresh)


def _field_problems(resource: Resource, obj: Obj, old: Obj | None, known: frozenset[str]) -> list[Problem]:
    fields = {name: value for name, value in obj.items() if name != "metadata"}
    return check(fields, resource.schema, old=old, but=known)


def _status_problems(resource: Resource, obj: Obj, old: Obj | None, known: frozenset[str]) -> list[Problem]:
    """parity: what is said of a field where a status alone is written names its place in that."""
    node, status = (resource.schema.properties or {}).get("status"), obj.get("status")
    if node is None or not isinstance(status, dict):
        return _field_problems(resource, obj, old, known)
    problems = [] if "status" in known else check(status, node, old=(old or {}).get("status"))
    return [replace(one, field="status" if one.field == "<nil>" else f"status.{one.field}") for one in problems]


def _report(kind: Kind, unknown: list[str], options: Options) -> None:
    words = [f'unknown field "{path}"' for path in unknown]
    words += [f'duplicate field "{path}"' for path in options.duplicates]
    if words and options.strict:
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {', '.join(words)}"
        )
    options.warnings[:] = words


def _check_identity(new: Obj, old: Obj, resource: Resource) -> None:
    kind, name = resource.kind, str(old["metadata"]["name"])
    metadata, before = new["metadata"], old["metadata"]
    if metadata.get("uid") and metadata["uid"] != before["uid"]:
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {before['uid']}"
        raise conflict(
            kind,
            name,
            f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/"
            f"{before.get('namespace', '')}{'/' if before.get('namespace') else ''}{name}, "
            f"ResourceVersion: 0, AdditionalErrorMsg: {why}",
        )
    revision = metadata.get("resourceVersion")
    if not revision and resource.needs_revision_to_update:
        problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        cause = {"reason": problem.reason, "message": problem.message, "field": problem.field}
        # parity: this refusal names the resource where others name the kind.
        raise Invalid(
            f'{kind.resource} "{name}" is invalid: {problem}', details={**name_details(kind, name), "causes": [cause]}
        )
    if revision and revision != before["resourceVersion"]:
        raise modified(kind, name)


def _status_update(new: Obj, old: Obj, resource: Resource) -> Obj:
    result = dict(old)
    result["metadata"] = dict(old["metadata"])
    if not resource.is_custom:
        # parity: a status update of a built-in kind may also change labels, annotations and finalizers.
        for field_name in ("labels", "annotations", "finalizers"):
            _keep(result["metadata"], new["metadata"], field_name)
    _keep(result, new, "status")
    return result


def _keep(target: Obj, source: Obj, field_name: str) -> None:
    if field_name in source:
        target[field_name] = source[field_name]
    else:
        target.pop(field_name, None)


def _finalizer_problems(new: Obj, old: Obj) -> list[Problem]:
    if not old["metadata"].get("deletionTimestamp"):
        return []
    known = old["metadata"].get("finalizers") or []
    added = [each for each in new["metadata"].get("finalizers") or () if each not in known]
    if not added:
        return []
    shown = "[]string{" + ", ".join(f'"{each}"' for each in added) + "}"
    why = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
    return [forbidden("metadata.finalizers", why)]


def _establish(definition: Obj, clock: Clock) -> None:
    """A definition is served from the moment it is stored; its conditions say so from the start."""
    now = timestamp(clock.now())
    # Its objects must go before it does; a controller sees to that and then takes this away.
    definition["metadata"].setdefault("finalizers", []).append(_CLEANUP_FINALIZER)
    definition["status"] = {
        "acceptedNames": definition["spec"]["names"],
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "lastTransitionTime": now, "reason": "NoConflicts",
             "message": "no conflicts found"},
            {"type": "Established", "status": "True", "lastTransitionTime": now, "reason": "InitialNamesAccepted",
             "message": "the initial names have been accepted"},
        ],
        "storedVersions": [version["name"] for version in definition["spec"]["versions"] if version.get("storage")],
    }  # fmt: skip
