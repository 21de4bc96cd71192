"""The loop of the emulated cloud."""
