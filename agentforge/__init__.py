"""AgentForge: a repository-repair agent that believes nothing it has not executed."""

__version__ = "0.1.0"
