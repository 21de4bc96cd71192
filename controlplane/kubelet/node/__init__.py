"""The node itself: admission of pods, the Node object, settings and metrics."""
