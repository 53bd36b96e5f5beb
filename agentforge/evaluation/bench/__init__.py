"""Batches: any workflow over any suite, resumable, with one ledger and one line a trial."""
