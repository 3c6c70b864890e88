"""This machine: settings, state and cache files, files of the user."""
