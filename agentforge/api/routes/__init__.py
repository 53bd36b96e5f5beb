"""What the server answers to, by subject."""
