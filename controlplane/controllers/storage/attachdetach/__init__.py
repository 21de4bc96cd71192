"""The attach-detach controller: volumes attached to nodes. Upstream: pkg/controller/volume/attachdetach."""
