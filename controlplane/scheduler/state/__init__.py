"""State of the cluster as the scheduler knows it: cache, snapshot, nodes, resources, listers."""
