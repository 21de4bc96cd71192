"""DaemonSets: a pod on every node that fits."""
