"""The repair engine that needs no model."""
