"""``maintain``: the right work, on the right tables, within a budget."""
