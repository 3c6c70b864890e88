"""The options and the screens of tune."""
