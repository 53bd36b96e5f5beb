"""The repair engine that needs no model.

`reproduce` turns an issue's claims into failing tests; `SearchEngine` localizes the fault, proposes
edits in likelihood order and screens them in batches inside the sandbox (docs/search.md).
"""
