"""Protocol, metadata and domains after a ``restore`` or a ``clone --sync``."""
