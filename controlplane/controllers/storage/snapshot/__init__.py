"""Volume snapshots and group snapshots: what the common controller decides, and what the sidecar shares with it."""
