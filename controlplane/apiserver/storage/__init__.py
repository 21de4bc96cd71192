"""Where objects are.

store           the multi-version store in memory; `durable_store` keeps it in a file
transactions    what is asked of a store and what it answers, as values
mirror          what one of several servers has heard of a store elsewhere
watch_cache     the state of one resource, recent events, and the watchers
shared_specs    specs of one template, stored once
"""
