"""What an operation raises for the user to read."""


class Failure(Exception):
    """What the controller shows: what failed, why, and what to type next."""

    def __init__(self, what, why="", hint="", slug="host-failed"):
        Exception.__init__(self, what)
        self.what, self.why, self.hint, self.slug = what, why, hint, slug


def document(failure):
    return {"what": failure.what, "why": failure.why, "hint": failure.hint, "slug": failure.slug}


def bug():
    """Of the exception that is being handled, which no one expected."""
    import traceback

    text = traceback.format_exc()
    return {"what": text.strip().splitlines()[-1], "why": text, "hint": "", "slug": "agent-bug"}
