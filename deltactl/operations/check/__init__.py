"""``check``, and ``check --fix``."""
