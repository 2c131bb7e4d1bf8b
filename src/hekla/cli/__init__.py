"""The commands; talks to any cluster."""
