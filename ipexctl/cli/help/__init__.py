"""The help of commands: options in groups, examples, and the first screen."""
