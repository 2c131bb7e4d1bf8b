"""What a person has said of how `hekla run` shall go."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunWish:
    logs: bool
    detach: bool
    json: bool
    flags: str
    """What leads other commands to the same cluster."""
    own_files: bool
    """Whether images are this machine's own files, and nobody said what they would have brought."""
    keeps: bool
    """Whether the data dir stays when a cluster for this run goes."""
