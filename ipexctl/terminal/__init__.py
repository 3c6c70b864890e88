"""The two consoles, questions, and the lines that every command ends with."""
