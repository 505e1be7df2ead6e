"""``vacuum``, and ``vacuum --undo``."""
