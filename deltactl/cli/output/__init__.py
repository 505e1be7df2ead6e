"""Print text, JSON, csv, GitHub annotations or JUnit; progress; logs."""
