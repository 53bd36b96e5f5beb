"""Programs that run inside containers, never here. Python 3.8, standard library only."""
