"""The slow and obvious form of searching, scoring and of the plugins that count over all nodes.

The product answers over columns; what stands here asks node by node, counts in dicts, and is what
the columns are compared with.
"""
