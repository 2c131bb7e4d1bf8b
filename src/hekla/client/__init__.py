"""The only code that speaks to an API server. Nothing above it knows which server answers."""
