"""A play's text, values and conditions as pure values."""
