"""Retry requests, limit their rate, count them."""
