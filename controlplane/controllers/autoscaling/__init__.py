"""Controllers that set the number of replicas."""
