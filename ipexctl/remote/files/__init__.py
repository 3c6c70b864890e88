"""Folders sent to a host: a run's own copy of the script's folder, and datasets."""
