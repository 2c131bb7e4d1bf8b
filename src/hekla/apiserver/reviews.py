"""Questions about oneself: who am I, may I. The only identity there is may do everything."""

from __future__ import annotations

from hekla.api.kinds import Obj
from hekla.apiserver.decoding import decode_object
from hekla.apiserver.path import Route
from hekla.apiserver.request import Request, Response, json_response

_GROUPS = ["system:masters", "system:authenticated"]
_ACCESS = ("selfsubjectaccessreviews", "subjectaccessreviews", "localsubjectaccessreviews")


def answer_review(route: Route, request: Request) -> Response | None:
    """The answer to a POST of a review; None when the path is not of one."""
    if route.group == "authentication.k8s.io" and route.plural == "selfsubjectreviews":
        user = {"username": request.user.name, "groups": _GROUPS}
        return _reviewed(request, route, "SelfSubjectReview", {"userInfo": user})
    if route.group != "authorization.k8s.io":
        return None
    if route.plural in _ACCESS:
        kind = {"s": "SelfSubjectAccessReview", "l": "LocalSubjectAccessReview"}[route.plural[0]]
        if route.plural == "subjectaccessreviews":
            kind = "SubjectAccessReview"
        return _reviewed(request, route, kind, {"allowed": True})
    if route.plural == "selfsubjectrulesreviews":
        rules = {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }
        return _reviewed(request, route, "SelfSubjectRulesReview", rules)
    return None


def _reviewed(request: Request, route: Route, kind: str, status: Obj) -> Response:
    review = decode_object(request, kind)
    answer = {
        "kind": kind,
        "apiVersion": f"{route.group}/{route.version}",
        "metadata": review.get("metadata") or {},
        "spec": review.get("spec") or {},
        "status": status,
    }
    return json_response(answer, 201)
