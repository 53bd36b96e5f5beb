"""Intake of repositories and issues, disposable workspaces, the patch engine."""
