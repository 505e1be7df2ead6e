"""The command line as the user typed it, suggestions, usage errors."""
