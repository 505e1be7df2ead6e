"""Describe the program for help, manual pages and completions; the texts of ``explain``."""
