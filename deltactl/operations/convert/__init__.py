"""``convert``."""
