"""Connections that stop being HTTP: what `kubectl exec`, `attach` and `port-forward` speak, and what they ask for."""
