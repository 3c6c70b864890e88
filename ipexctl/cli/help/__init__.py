"""How commands explain themselves: options in groups, examples, and the first screen."""
