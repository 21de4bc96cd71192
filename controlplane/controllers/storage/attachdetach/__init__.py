"""Which volumes are attached to which nodes, and that it becomes so. Upstream: pkg/controller/volume/attachdetach."""
