"""``check --erased``: search everything that still exists for values."""
