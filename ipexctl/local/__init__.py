"""The controller: settings, state and cache files, files of the user."""
