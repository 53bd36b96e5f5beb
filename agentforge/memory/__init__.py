"""Episodic memory and the live repository index."""
