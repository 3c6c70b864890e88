"""Apply the steps of plays on a host: each module has `apply(task)`."""
