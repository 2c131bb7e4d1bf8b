"""The core tried out on made-up clusters: cases for tests, and for whoever writes a plugin."""
