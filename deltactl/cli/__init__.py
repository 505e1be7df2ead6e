"""Start the program: the table of commands, global options, sessions, exit statuses, signals."""
