"""The text of each command's report."""
