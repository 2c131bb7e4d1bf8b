"""Questions about identity and access: whose token is this, who am I, may somebody do something, what may I do."""

from __future__ import annotations

from collections.abc import Callable

from hekla.api.kinds import Kind, Obj
from hekla.apiserver.access.attributes import reviewed_attributes
from hekla.apiserver.access.authentication import Authenticator
from hekla.apiserver.access.rbac import Authorizer
from hekla.apiserver.access.user import User
from hekla.apiserver.decoding import decode_object
from hekla.apiserver.invalid import Problem, invalid, refusal
from hekla.apiserver.path import Route
from hekla.apiserver.request import Request, Response, json_response
from hekla.errors import BadRequest, Invalid

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
TOKEN_REVIEW = Kind(_AUTHENTICATION, "v1", "TokenReview", "tokenreviews", False)
SELF_REVIEW = Kind(_AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews", False)
ACCESS_REVIEW = Kind(_AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews", False)
LOCAL_ACCESS_REVIEW = Kind(_AUTHORIZATION, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews")
SELF_ACCESS_REVIEW = Kind(_AUTHORIZATION, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False)
SELF_RULES_REVIEW = Kind(_AUTHORIZATION, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False)
REVIEWS = (TOKEN_REVIEW, SELF_REVIEW, ACCESS_REVIEW, LOCAL_ACCESS_REVIEW, SELF_ACCESS_REVIEW, SELF_RULES_REVIEW)
_ATTRIBUTES = ("resourceAttributes", "nonResourceAttributes")
_SPEC = {
    TOKEN_REVIEW.kind: ("token", "audiences"),
    ACCESS_REVIEW.kind: (*_ATTRIBUTES, "user", "groups", "extra", "uid"),
    LOCAL_ACCESS_REVIEW.kind: (*_ATTRIBUTES, "user", "groups", "extra", "uid"),
    SELF_ACCESS_REVIEW.kind: _ATTRIBUTES,
    # parity: the answer does not repeat which namespace was asked about.
    SELF_RULES_REVIEW.kind: (),
}
_BY_PLACE = {(kind.group, kind.version, kind.plural): kind for kind in REVIEWS}


class Reviews:
    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._answers: dict[str, Callable[[Kind, Obj, Route, User], Obj]] = {
            TOKEN_REVIEW.kind: self._token,
            SELF_REVIEW.kind: lambda _kind, _spec, _route, user: {"userInfo": user.info()},
            ACCESS_REVIEW.kind: self._access,
            LOCAL_ACCESS_REVIEW.kind: self._access,
            SELF_ACCESS_REVIEW.kind: self._own_access,
            SELF_RULES_REVIEW.kind: self._own_rules,
        }

    def answer(self, route: Route, request: Request) -> Response | None:
        """The answer to a POST of a review; None when the path is not of one."""
        kind = _BY_PLACE.get((route.group, route.version, route.plural))
        if kind is None or kind.namespaced != bool(route.namespace):
            return None
        review = decode_object(request, kind.kind)
        spec: Obj = review.get("spec") or {}
        status = self._answers[kind.kind](kind, spec, route, request.user)
        metadata: Obj = review.get("metadata") or {}
        if kind.namespaced:
            metadata = {**metadata, "namespace": route.namespace}
        answer: Obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if kind is not SELF_REVIEW:
            answer["spec"] = {name: value for name, value in spec.items() if name in _SPEC[kind.kind]}
        return json_response({**answer, "status": status}, 201)

    def _token(self, kind: Kind, spec: Obj, _route: Route, _user: User) -> Obj:
        if not spec.get("token"):
            raise BadRequest(f"token is required for {kind.kind} in authentication")
        audiences = tuple(spec.get("audiences") or ())
        found = self._authenticator.review(str(spec["token"]), audiences)
        if found is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": found.user.info(), "audiences": list(found.audiences)}

    def _access(self, _kind: Kind, spec: Obj, route: Route, _user: User) -> Obj:
        problems = _attribute_problems(spec)
        if not spec.get("user") and not spec.get("groups"):
            problems.append(
                invalid("spec.user", spec.get("user", ""), "at least one of user or group must be specified")
            )
        asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if route.namespace and asked != route.namespace:
            problems.append(invalid("spec.resourceAttributes.namespace", asked, "must match metadata.namespace"))
        if problems:
            raise _refused(problems)
        return self._decided(User(str(spec.get("user") or ""), tuple(spec.get("groups") or ())), spec)

    def _own_access(self, _kind: Kind, spec: Obj, _route: Route, user: User) -> Obj:
        problems = _attribute_problems(spec)
        if problems:
            raise _refused(problems)
        return self._decided(user, spec)

    def _decided(self, user: User, spec: Obj) -> Obj:
        decision = self._authorizer.decide(user, reviewed_attributes(spec))
        return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}

    def _own_rules(self, _kind: Kind, spec: Obj, _route: Route, user: User) -> Obj:
        namespace = spec.get("namespace")
        if not namespace:
            raise BadRequest("no namespace on request")
        rules, troubles = self._authorizer.rules_of(user, str(namespace))
        status: Obj = {
            "resourceRules": [rule.to_object() for rule in rules if rule.resources],
            "nonResourceRules": [rule.to_object() for rule in rules if rule.paths],
            "incomplete": False,
        }
        if troubles:
            status["evaluationError"] = ", ".join(troubles)
        return status


def _refused(problems: list[Problem]) -> Invalid:
    # parity: these refusals name the group and no kind.
    error = refusal(Kind(_AUTHORIZATION, "v1", "", ""), "", problems)
    assert error.details is not None
    del error.details["kind"]
    return error


def _attribute_problems(spec: Obj) -> list[Problem]:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource and other:
        shown = {"Path": other.get("path", ""), "Verb": other.get("verb", "")}
        why = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", shown, why)]
    if not resource and not other:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, why)]
    return []
