"""Parts of which scenarios are made: faults, workloads, worlds, and scenarios in YAML."""
