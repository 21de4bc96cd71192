"""What the scheduler knows of the cluster: cache, snapshot, nodes, resources, listers."""
