"""Where objects live: one sequence of revisions, durable or in memory."""
