"""Controllers of devices: claims of dynamic resource allocation, and eviction by device taints."""
