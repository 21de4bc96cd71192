"""What a run is given in files: manifests, traces, and their way into the cluster."""
