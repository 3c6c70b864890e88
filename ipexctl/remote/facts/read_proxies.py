"""Read which proxies the account sets, in the environment that a command over SSH gets."""

import os

PROXY = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


WITHOUT_PROXY = ("no_proxy", "NO_PROXY")


def read_proxy_variables() -> "dict[str, str | None]":
    """Return {name: None for a proxy, whose URL can hold a password; no_proxy with its value}."""
    variables = dict.fromkeys(filter(os.environ.get, PROXY))  # type: dict[str, str | None]
    for name in WITHOUT_PROXY:
        value = os.environ.get(name)
        if value is not None:
            variables[name] = None if "@" in value else value[:2000]
    return variables
