"""Programming problems: reading records, and the small repository that a problem becomes."""
