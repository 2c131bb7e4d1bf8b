"""The controllers: what makes Jobs run, queues open and finished things go."""
