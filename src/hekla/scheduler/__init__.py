"""The gang scheduler: which pod runs on which node, decided group by group."""
