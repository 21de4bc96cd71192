"""The page: a run to look at, recorded or live.

differences  what changed between two trees, small enough to keep for every write
columns      rows in order of steps, kept and sent column by column
model        what the page knows of a run: events, versions of objects, queues, caches, attempts
watching     looks at a run between its steps and tells the model
attempts     what every plugin said in an attempt to schedule a pod
findings     what a violation rests on: the steps to look at first
recorded     a run that was recorded: its log, and what a replay shows beside it
comparing    where two runs part
report       one file with everything in it
static/      the page itself: plain ES modules, no build
"""
