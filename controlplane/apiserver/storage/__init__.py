"""Storage of objects.

store           the multi-version store in memory; `durable_store` keeps it in a file
transactions    operations on a store and its answers, as values
mirror          one of several servers' copy of a remote store
watch_cache     the state of one resource, recent events, and the watchers
shared_specs    specs of one template, stored once
"""
