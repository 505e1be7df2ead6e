"""``restore``."""
