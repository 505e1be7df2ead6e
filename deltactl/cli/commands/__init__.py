"""One module for each command: parse the options, print the report."""
