"""``clone``, and ``clone --sync``."""
