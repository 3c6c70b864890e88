"""Known failures and the lines by which they are recognised. Pure."""
