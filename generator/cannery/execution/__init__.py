"""Runs whole generated networks: one program, built for the target and run by its runner."""
