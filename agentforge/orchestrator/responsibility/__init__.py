"""Responsibility records: ownership, localization, acceptance, metrics (AuditCoder). Pure; no ports."""
