"""ReplicationControllers: as ReplicaSets, of which they are the older form."""
