"""What runs beside a solution, inside the sandbox."""
