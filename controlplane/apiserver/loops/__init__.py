"""The running API server: its actors and tasks, and the HTTP boundary."""
