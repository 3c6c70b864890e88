"""Files by their content: stored here, sent to hosts, passed on between them."""
