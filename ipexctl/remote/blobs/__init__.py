"""Files by content on this host: received, fetched, and served to other hosts."""
