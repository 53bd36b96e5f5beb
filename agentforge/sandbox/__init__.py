"""The one door to execution."""
