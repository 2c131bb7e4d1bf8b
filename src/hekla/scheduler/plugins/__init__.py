"""Scheduler plugins, one file each, found through the entry points group `hekla.scheduler_plugins`."""
