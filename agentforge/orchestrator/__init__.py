"""The workflow engine, routing, the gate and the run store."""
