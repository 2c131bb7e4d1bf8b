"""Paths: what they name, and what is no path of a resource."""

from __future__ import annotations

import pytest

from hekla.apiserver.path import Route, parse_route


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/api/v1/pods", Route("", "v1", "pods")),
        ("/api/v1/namespaces", Route("", "v1", "namespaces")),
        ("/api/v1/namespaces/n", Route("", "v1", "namespaces", name="n")),
        ("/api/v1/namespaces/n/finalize", Route("", "v1", "namespaces", name="n", subresource="finalize")),
        ("/api/v1/namespaces/n/pods/p/log", Route("", "v1", "pods", "n", "p", "log")),
        (
            "/apis/batch.volcano.sh/v1alpha1/namespaces/n/jobs/j",
            Route("batch.volcano.sh", "v1alpha1", "jobs", "n", "j"),
        ),
        ("/apis/g/v1/widgets/a%20b", Route("g", "v1", "widgets", name="a b")),
        ("/api/v1", None),
        ("/apis/g/v1", None),
        ("/api/v1/namespaces//pods", None),
        ("/api/v1/namespaces/n/pods/a%2Fb", None),
        ("/api/v1/namespaces/n/pods/p/log/x", None),
        ("/healthz", None),
    ],
)
def test_a_path_names_a_place(path: str, route: Route | None) -> None:
    assert parse_route(path) == route
