"""The one door to language models: OpenAI-compatible client, retries, ledger, record and replay."""
