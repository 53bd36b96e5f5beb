"""Topic specialists: the pool, its notes, and the agents that work in a relay (MARS)."""
