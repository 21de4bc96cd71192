"""Random conversations with a real API server and with ours, compared answer by answer; see `__main__`."""
