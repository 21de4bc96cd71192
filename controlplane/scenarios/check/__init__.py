"""Check: will a configuration come to rest, and stay up, under what happens to every cluster.

`subject` reads the configuration, `events` names what happens to it, `timeline` and `verdicts` judge a history of
writes, `report` says the findings in plain words. `scenario` is one run with its events, `campaign` goes through many.
"""
