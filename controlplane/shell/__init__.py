"""The emulated shell of containers: what exec, attach and the programs of containers run."""
