"""The embedded, Kubernetes-compatible API server: an ASGI app over a durable store."""
