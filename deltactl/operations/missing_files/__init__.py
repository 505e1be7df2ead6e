"""Find files of a version that are missing or have a wrong size."""
