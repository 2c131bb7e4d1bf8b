"""The stages of a cycle, one file each, run in the configured order."""
