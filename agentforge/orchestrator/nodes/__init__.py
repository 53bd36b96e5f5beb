"""The nodes that workflows are wired from."""
