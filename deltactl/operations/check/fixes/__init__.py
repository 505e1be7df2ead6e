"""``check --fix``: the repairs of what ``check`` finds.

``run`` has the table of all fixes. Each fix plans from a snapshot, and changes nothing before the
plan was confirmed.
"""
