"""The decisions of the Cluster Autoscaler: scale-up, scale-down and the state of node groups."""
