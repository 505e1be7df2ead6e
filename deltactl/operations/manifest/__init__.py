"""``generate-manifest``."""
