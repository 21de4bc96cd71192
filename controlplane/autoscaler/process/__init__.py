"""The autoscaler as a process: its loop, its deletions of nodes, its reports."""
