"""Pending workloads: the queues of cluster queues, what is inadmissible, and when it is tried again."""
