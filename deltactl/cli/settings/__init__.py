"""Values of options from the environment and from ``deltactl.toml``."""
