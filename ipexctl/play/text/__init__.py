"""A play's text, values and conditions. Pure."""
