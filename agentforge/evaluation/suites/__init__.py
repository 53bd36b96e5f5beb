"""Suites of problems with reference solutions, known-bad solutions and hidden judges."""
