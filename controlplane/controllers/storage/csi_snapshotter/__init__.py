"""The CSI snapshotter sidecar: one per driver, between contents and the driver's calls."""
