"""Report what the files of a table are for, and what they cost."""
