"""The folder of a run on this host: journal, logs, results."""
