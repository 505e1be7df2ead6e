"""Install the completions of shells; the texts of ``explain``."""
