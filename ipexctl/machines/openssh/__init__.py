"""OpenSSH's own files and formats. Pure."""
