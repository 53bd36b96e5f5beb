"""Suites, trial records, statistics, tables and plots (design, section 1)."""
