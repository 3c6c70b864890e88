"""Runs as objects of a program: shown in Jupyter, printed in a terminal."""
