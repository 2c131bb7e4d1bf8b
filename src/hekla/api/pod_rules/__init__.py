"""What makes a pod wrong, beyond its schema: the rules people trip over, in Kubernetes' own words and all at once.

The API server asks for pods, admission for the templates of Jobs. What the rules say, and in which order, is compared
with a real API server (`tests/api/pod-faults.yaml`).
"""

from hekla.api.pod_rules.spec import pod_problems, pod_spec_problems, template_problems

__all__ = ["pod_problems", "pod_spec_problems", "template_problems"]
