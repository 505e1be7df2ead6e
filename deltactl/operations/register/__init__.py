"""``register``."""
