"""Which files of a folder are sent, and which one a script lacked. Pure."""
