"""Reports of a comparison: tables, figures and one page, all from the same figures."""
