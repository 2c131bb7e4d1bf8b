"""One concern of running a pod per module. The worker calls them in order; each decides, none talks to another."""
