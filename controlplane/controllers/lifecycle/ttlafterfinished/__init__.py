"""TTL after finished: Jobs that are over go after a while."""
