"""Object stores through the file systems of fsspec."""
