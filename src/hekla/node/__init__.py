"""The node: pods as isolated local processes, and everything a kubelet does that a batch job sees."""
