"""Planner, coder, tester, debugger, critic: prompt in, artifact out."""
