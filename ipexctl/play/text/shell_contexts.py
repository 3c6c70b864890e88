"""How /bin/sh reads each place of a text: where a value may stand, and in which quotes.

What POSIX leaves open, and what dash and bash read in different ways, is said to be unclear.
"""

from __future__ import annotations

import re
from dataclasses import field

from ipexctl.quick_dataclass import dataclass

PLAIN, DOUBLE, SINGLE, NUMBER = "plain", "double", "single", "number"
BACKSLASH, UNCLEAR = "\\", "unclear"
BACKTICK, ANSI, QUOTED_HERE = "`", "$'", "<<'"

_WORD_ENDS = " \t\n;&|()<>"
_DELIMITER = re.compile(r"<<(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|()<>'\"\\$`])+)")
_PARAMETER = re.compile(r"[A-Za-z0-9_@*?!]*")
_CASE = re.compile(r"case\s+\S+\s+in\b")
# Contexts of the stack: "sh" "(" "$(" '"' "'" "#" "`" "$'" "<<"; "((" and "(+" of arithmetic;
# "${" where quotes count, '${"' where they are read in different ways.
_PLAIN = ("sh", "(", "$(", "${")
_ENDS = {"'": "'", "`": "`", "$'": "'", '"': '"', "(": ")", "$(": ")", "(+": ")"}
_SAYS = {
    '"': DOUBLE, "<<": DOUBLE, '${"': DOUBLE, "#": DOUBLE, "'": SINGLE, "((": NUMBER, "(+": NUMBER,
    "`": BACKTICK, "$'": ANSI,
}  # fmt: skip


@dataclass
class ShellContexts:
    """`reference` matches what is not the shell's own; with a group `escaped`, a `${` of it."""

    text: str
    reference: re.Pattern[str]
    unclear: str = ""  # since when nothing can be said
    _at: dict[int, str] = field(default_factory=dict)
    _here: list[tuple[str, bool, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._scan(0, len(self.text), "sh")

    def at(self, position: int) -> str:
        return self._at.get(position, BACKSLASH)

    def _scan(self, start: int, end: int, around: str) -> None:
        stack, i = [around], start
        while i < end:
            found = self.reference.match(self.text, i)
            if found and found["escaped"]:
                i = self._parameter(stack, found.end())
            elif found:
                said = _SAYS.get(stack[-1], PLAIN)
                self._at[i] = UNCLEAR if self.unclear else said
                i = found.end()
            else:
                i = self._letter(stack, i)

    def _parameter(self, stack: list[str], at: int) -> int:
        """`${NAME#PATTERN}`: quotes count in patterns, also inside of double quotes."""
        found = _PARAMETER.match(self.text, at)
        assert found
        quoted = stack[-1] not in _PLAIN and self.text[found.end() : found.end() + 1] not in "#%/"
        stack.append('${"' if quoted else "${")
        return found.end()

    def _letter(self, stack: list[str], i: int) -> int:
        letter, top = self.text[i], stack[-1]
        if top == "#":
            if letter == "\n":
                stack.pop()
                return i
            return i + 1
        if letter == "\\" and top != "'":
            if top == ANSI and self.text[i + 1 : i + 2] == "'":
                self.unclear = self.unclear or "\\' in $'...'"
            return i + 2
        if letter == _ENDS.get(top):
            stack.pop()
            return i + 1
        if top in ("'", "`", ANSI):
            return i + 1
        return self._active(stack, i)

    def _active(self, stack: list[str], i: int) -> int:
        """Where $ and backticks count."""
        letter, top = self.text[i], stack[-1]
        for sign, pushed in (("`", "`"), ("$((", "(("), ("$(", "$(")):
            if self.text.startswith(sign, i):
                stack.append(pushed)
                return i + len(sign)
        if top == '${"' and letter in "'\"":
            self.unclear = self.unclear or f'{letter} in "${{ }}"'
        if top in ('"', "<<", '${"', "((", "(+"):
            if top == '${"' and letter == "}":
                stack.pop()
            if top == "((" and self.text.startswith("))", i):
                stack.pop()
                return i + 2
            if top in ("((", "(+") and letter == "(":
                stack.append("(+")
            return i + 1
        return self._plain(stack, i)

    def _plain(self, stack: list[str], i: int) -> int:
        text, letter = self.text, self.text[i]
        starts = i == 0 or text[i - 1] in _WORD_ENDS
        if stack[-1] == "${" and letter == "}":
            stack.pop()
        elif text.startswith(ANSI, i):
            stack.append(ANSI)
            return i + 2
        elif letter in "'\"" or (letter == "#" and starts and stack[-1] != "${"):
            stack.append(letter)
        elif text.startswith("<<<", i):
            return i + 3
        elif text.startswith("<<", i):
            return self._here_document(i)
        elif text.startswith("((", i) and starts:
            stack.append("((")
            return i + 2
        elif letter == "(":
            stack.append("(")
        elif letter == "\n" and self._here:
            return self._bodies(i + 1)
        elif letter == "c" and starts and "$(" in stack and _CASE.match(text, i):
            self.unclear = self.unclear or "case in $( )"
        return i + 1

    def _here_document(self, i: int) -> int:
        found = _DELIMITER.match(self.text, i)
        if not found:
            self.unclear = self.unclear or "<<"
            return i + 2
        word = re.sub(r"\\(.)|['\"]", r"\1", found[2])
        self._here.append((word, word != found[2], bool(found[1])))
        return found.end()

    def _bodies(self, start: int) -> int:
        """The here-documents whose bodies begin with this line."""
        here, self._here = self._here, []
        for word, quoted, dash in here:
            tabs = "\t*" if dash else ""
            stop = re.compile(f"^{tabs}{re.escape(word)}$", re.MULTILINE).search(self.text, start)
            end = stop.start() if stop else len(self.text)
            if quoted:
                for found in self.reference.finditer(self.text, start, end):
                    self._at[found.start()] = QUOTED_HERE
            else:
                self._scan(start, end, "<<")
            start = stop.end() + 1 if stop else end
        return start
