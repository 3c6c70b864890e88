"""Many runs as a table: settings that differ, the last and the best of each metric. Pure."""
