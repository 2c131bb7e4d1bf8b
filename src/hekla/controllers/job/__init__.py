"""The job controller: a Volcano Job becomes a PodGroup, pods and what its plugins need, until it ends."""
