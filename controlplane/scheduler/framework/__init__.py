"""The scheduling framework: statuses, extension points, and the runtime that drives plugins."""
