"""What an operation raises for the user to read."""


class Failure(Exception):
    """What the controller shows: what failed, why, and what to type next."""

    def __init__(self, what, why="", hint="", slug="host-failed"):
        Exception.__init__(self, what)
        self.what, self.why, self.hint, self.slug = what, why, hint, slug
