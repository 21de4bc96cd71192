"""KubeSchedulerConfiguration: reading, defaulting, checking, feature gates, plugins of users."""
