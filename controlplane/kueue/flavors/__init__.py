"""Which flavor each pod set of a workload gets, and whether that needs borrowing or preemption."""
