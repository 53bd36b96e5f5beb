"""Settings, their loading and layering."""
