"""Which files of a folder are sent. Pure."""
