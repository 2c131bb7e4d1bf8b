"""What a verb says when it fails: `Failed to delete job: jobs.batch.volcano.sh "x" not found`, as vcctl does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hekla.cli.manifest import BadFile
from hekla.errors import ApiError, HeklaError, UsageError


class VerbFailed(HeklaError):
    """A verb could not be carried out; the text says which and why."""


def failing_as(doing: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put "Failed to <doing>:" before what goes wrong. Trouble reaching the cluster is told as everywhere else."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(*arguments: Any, **parameters: Any) -> Any:
            try:
                return command(*arguments, **parameters)
            except BadFile:
                raise
            except (ApiError, UsageError) as error:
                raise VerbFailed(f"Failed to {doing}: {error}") from error

        return call

    return decorate
