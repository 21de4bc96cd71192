"""The pods of a node: their sources, workers, containers, probes, volumes and status."""
