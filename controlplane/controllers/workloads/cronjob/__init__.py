"""Cron jobs: jobs at the times of a schedule."""
