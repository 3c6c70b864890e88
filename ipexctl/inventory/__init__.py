"""Every way of writing a host list. Pure."""
