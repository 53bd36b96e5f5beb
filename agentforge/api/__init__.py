"""The server: runs as jobs, their events as streams, and the web client (`agentforge serve`)."""
