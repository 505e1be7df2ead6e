"""``optimize``."""
