"""Files by name, on local file systems and on object stores through fsspec."""
