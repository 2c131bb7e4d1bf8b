"""Rules of Kubernetes' own kinds that no schema expresses, in the real server's words: a file for each family of kinds.

What a pod and a claim have to say is in `hekla.api`: admission asks for the templates of Jobs.
"""

from hekla.apiserver.validation.by_kind import CREATE_VALIDATORS, UPDATE_VALIDATORS, VALIDATORS
from hekla.apiserver.validation.metadata import validate_finalizers, validate_metadata

__all__ = ["CREATE_VALIDATORS", "UPDATE_VALIDATORS", "VALIDATORS", "validate_finalizers", "validate_metadata"]
