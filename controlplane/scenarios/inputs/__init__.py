"""The file inputs of a run: manifests, traces, and their submission to the cluster."""
