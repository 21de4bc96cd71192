"""Controllers of volumes and snapshots, the sidecars of a CSI driver, and an emulated driver."""
