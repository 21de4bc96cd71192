"""Memories of results and shared values: equal data is stored and computed once.

- `memory`: results of pure functions by the identity of their arguments, bounded, with one switch that turns all off;
- `alike`: one tree for all equal small parts of objects, such as conditions;
- `compact`: dictionaries that share their keys;
- `replacing`, `quick_init`: copies and instances of frozen attrs classes, made faster.

Objects at rest as packed bytes (`api.stored`), specs by their content (`apiserver.storage.shared_specs`) and
the columns of the scheduler stand with their users.
"""
