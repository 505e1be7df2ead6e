"""Estimate the share of files that a lookup skips."""
