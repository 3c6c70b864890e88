"""Files by content on this host: taken in, fetched, served to other hosts."""
