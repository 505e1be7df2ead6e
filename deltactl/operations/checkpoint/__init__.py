"""``checkpoint``, and ``checkpoint --repair``."""
