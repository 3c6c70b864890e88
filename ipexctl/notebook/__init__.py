"""Runs as Python objects: shown in Jupyter, printed in a terminal."""
