"""The plugins that choose pods. Each is a function of a handle, its arguments and the nodes of a pass."""
