"""What `kubectl get` shows of Kubernetes' own kinds: columns and their cells."""
