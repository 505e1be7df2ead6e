"""Find files that have several path texts in the log."""
