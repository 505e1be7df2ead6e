"""``--where``: SQL predicates on partition columns."""
