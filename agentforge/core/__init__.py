"""The nouns: frozen, typed, no I/O. Imports nothing of ours."""
