"""scheduler_perf: upstream's benchmark files, read unchanged and run against this control plane."""
