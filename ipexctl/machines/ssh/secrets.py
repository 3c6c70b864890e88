"""Passwords and passphrases: asked once each, on the terminal, and kept in memory only."""

from __future__ import annotations

import getpass
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from ipexctl.errors import InputError
from ipexctl.terminal.live_lines import without_live_lines

TRIES = 3
T = TypeVar("T")
Ask = Callable[[str], str]


class Secrets:
    """`ask_pass`: all hosts have the same password. `ask` prompts without an echo."""

    def __init__(
        self, *, ask_pass: bool = False, ask: Ask = getpass.getpass, terminal: bool | None = None
    ) -> None:
        self.ask_pass = ask_pass
        self._ask = ask
        self._terminal = sys.stdin.isatty() if terminal is None else terminal
        self._password: str | None = None
        self._opened: dict[str, object] = {}
        self._lock = threading.Lock()

    def password(self) -> str | None:
        """Return the password; None without --ask-pass."""
        if not self.ask_pass:
            return None
        with self._lock:
            if self._password is None:
                self._password = self._prompt_password()
            return self._password

    def open(self, path: str, key_with: Callable[[bytes], T | None]) -> T | None:
        """Return the result of `key_with` for this key file's passphrase; None if not given."""
        with self._lock:
            if path not in self._opened and self._terminal:
                self._opened[path] = self._prompt_passphrase(path, key_with)
            return self._opened.get(path)  # type: ignore[return-value]

    @without_live_lines()
    def _prompt_password(self) -> str:
        if not self._terminal:
            raise InputError(
                "--ask-pass needs a terminal, but stdin is not one",
                hint="ssh-copy-id HOST   # and log in with a key instead",
                slug="no-terminal",
            )
        try:
            return self._ask("SSH password: ")
        except EOFError:
            raise InputError("no password was given", slug="no-password") from None

    @without_live_lines()
    def _prompt_passphrase(self, path: str, key_with: Callable[[bytes], T | None]) -> T | None:
        for tries_left in reversed(range(TRIES)):
            try:
                passphrase = self._ask(f"Passphrase of {path}: ")
            except EOFError:
                return None
            key = key_with(passphrase.encode("utf-8")) if passphrase else None
            if key is not None or not passphrase:  # just Enter: go on without this key
                return key
            if tries_left:
                print("Wrong passphrase.", file=sys.stderr)
        return None
