"""``maintain``: do the most useful work on many tables, within a budget."""
