"""Files by their content: kept here, sent to hosts, passed on between them."""
