"""SWE-bench: instances for the agent, predictions, and the official harness as the only judge."""
