"""Where a text has secrets: by their names, their places in commands and URLs, and their shapes.

Each pattern is tried once at each character and reads a bounded number of characters before it
fails, and what a match consumes is not read again: time grows with the length of the text alone.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator

from ipexctl.base.secret_mask import MASK
from ipexctl.base.secret_names import Named, is_mixed, is_random, looks_random, named

Spans = Iterator[tuple[int, int]]

_ESC = r"(?:\x1b|\\(?:x1[bB]|u001[bB]|033|e(?=\[)))"
_INVISIBLE = re.compile(
    r"[\x00-\x07\x0e-\x1f\x7f\x9b\xad\u200b-\u200f\u2060-\u2064\ufeff\\]"
    r"(?:(?<!\\)|x1[bB]|u001[bB]|033|e(?=\[))"
    rf"(?:(?<=[\x1bbB3e\x9b])(?:\[?[0-?]{{0,64}}[ -/]{{0,8}}[@-~]"
    rf"|\][^\x07\x1b\n]{{0,512}}(?:\x07|{_ESC}\\)?|[()][0-9A-Za-z]|[=>78])|)"
)
_ERASED = re.compile(r"[^\n]?\x08")
_KEY_MARK = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,8}-----")
_KEY_LAST = re.compile(
    r"\n(?!{0})[^\n]*(?=\n(?!{0})|\Z)".replace("{0}", r"[^\n]{0,80}[A-Za-z0-9+/]{32}")
)
_KEY_LINE = re.compile(r"^[ \t]{0,16}([A-Za-z0-9+/]{59,}={0,3})[ \t\r]{0,16}$", re.M)
_PUTTY = re.compile(r"Private-(?:Lines: \d{1,4}(?:\r?\n[A-Za-z0-9+/=]{1,80}){0,200}|MAC: \S+)")
_URL = re.compile(r"://([^\s\"<>]+)")
_PARAMETER = re.compile(r"[?&;](?=([\w.%-]{0,48}))\1=([^\s&\"'<>]+)")
_URL_SECRETS = frozenset(
    ["sig", "signature", "key", "code", "token", "auth", "sid", "sv_sig", "hash", "hmac"]
)  # noqa: SIM905
_HOOK = re.compile(r"hook[^/\s]{0,40}/|/bot(?=\d)|/t/(?=[a-z]{2}-)", re.I)
_LOGIN = re.compile(r":(?<=[\w.-]:)(?!\d{1,4}(?:,\d{1,4}){0,9}@)[^\s@:/\"']{1,256}@(?=[\w\[])")
# in a text in lower case
_NAME = re.compile(
    r"(?:token|key|secret|pass|pwd|pw|psk|cred|auth|cookie|sess|sid|sig|jwt|otp|mnemonic|phrase"
    r"|webhook|dsn|login)(?=([\w.-]{0,40}))\1(?P<close>\\{0,4}[\"'`]?\]?)"
    r"(?:(?: for \S{1,128}(?=:))?[ \t]{0,16}(?P<is>=>|:=|={1,2}|:(?!//)|：|%3[ad])[ \t]{0,16}"
    r"|(?P<next>[ \t]{0,4}(?:,\s{0,64}|\n[ \t]{0,32}|\()"
    r"(?:\\{0,4}[\"']?v(?:al(?:ue)?)?\\{0,4}[\"']?[ \t]{0,4}[:=][ \t]{0,4}|(?=[bru]?\\{0,4}[\"'])))"
    r"|(?P<tag>>)|(?P<gap>[ \t]{1,32}(?:[|│][ \t]{1,32})?)"
    r"|(?P<line>\r?\n[ \t]{0,32}(?:[\w\[\].]{1,16}:[ \t])?))"
)
_OF_NAMES = "-_." + string.ascii_letters + string.digits
_OPENS_BLOCK = re.compile(r"[|>{\[(]?[-+]?(?:\r?\n|\Z)")
_OPENING = re.compile(r"[bBrRuUfF]{0,2}(\\{1,8}[\"'`]|\"\"\"|'''|[\"'`])")
_QUOTED = {
    quote: re.compile(rf"[^{quote}\\\n]*(?:\\.[^{quote}\\\n]*){{0,1000}}{quote}")
    for quote in "\"'`"
}
_WORD = re.compile(  # of a shell; what is in brackets is part of it
    r"(?:[^\s\"'({\[\\]+|\\[\"']?|\"[^\"\n]{0,4000}\"|'[^'\n]{0,4000}'"
    r"|[({\[](?:[^(){}\[\]\n]|\}\}){0,256}[)}\]]|[\"'({\[])+"
)
_BARE = re.compile(r"[^\s\"'`,;<>(){}\[\]]{1,256}")
_REST = re.compile(r"[^\n]+")
_END = r"(?=[\s,;)\]}\"'`|&]|\\|\Z)"
_NOTHING = re.compile(
    rf"(?:none|null|nil|true|false|auto|yes|no|\*+|\$\{{?\w+\}}?|%\w+%|<[\w -]+>){_END}", re.I
)
_NUMBER = re.compile(rf"-?\d{{1,5}}(?:\.\d+)?(?:e[+-]?\d+)?(?: ?(?:ms|us|s|%|/\d+)|{_END})", re.I)
_PASSWORD = re.compile("passw|pwd|secret|phrase", re.I)
_CODE = re.compile(r"[A-Za-z_][\w.]{0,64}[\[(][\w., =:\[\]()-]{0,128}[\])][ \t\r]{0,8}$", re.M)
_IS = re.compile(r"(?:is|was|set to|to|for (?:\S{1,64} ){1,3}is)[ \t:]{1,4}", re.I)
_STATE = re.compile(  # password is required
    r"[iru]n|re|ex|not?\b|now|an?\b|the|too|set|st|al|wrong|weak|[a-z]+(?:ed|ing|y|id|ect)\b", re.I
)
_LINE = re.compile(r"\r?\n([ \t]*)([^\n]*)")
_SETS = frozenset(["env", "arg", "setx", "setenv", "gx", "genv"])  # NAME VALUE
_PROSE = re.compile(r"(?!(?:is|was|set|to|for)[ \t])[a-z]{1,32}[ \t]{1,8}[^\s|]")
_OF_PROSE = re.compile(r"[(|`]|[a-zA-Z]{1,32}[.,:;)]+(?:\s|\Z)")
_PARTS = re.compile(r"[a-z]{3}[A-Z]|\w-\w+-\w")
_PLURAL = ("ds", "ts", "ns", "ys")
_MIXED = re.compile(r"[A-Za-z]\d+[A-Za-z]|\d[A-Za-z]+\d|[!@#$%^&*+=?~]")
_SHORT = re.compile(
    r"-(?<![\w./=-]-)([aAbkKNpPtTuUwW]|-(?:proxy-)?user(?=[ =]))"
    r"(\\{0,4}[\"']?(?:,[ \t]{0,4}|[ \t]{1,8})|=?)(?=[^\s-])"
)
_WITH_PASSWORD = re.compile(  # in -pPASSWORD, -a, -w or -U
    "(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump|sshpass|7z|7za|zip|unzip"
    "|redis-cli|ldapsearch|ldapadd|ldapmodify|ldapwhoami|sqlcmd|bcp|mongo|mongosh|mongodump|lftp"
    "|openssl|ssh-keygen|gpg|ipmitool|smbclient|rpcclient|snmpget|snmpwalk)(?![\\w./-])"
)
_MAKES_FOLDERS = re.compile(r"\b(?:mkdir|cp|rsync|install|ps|kill|tar|ssh|scp)(?![\w./-])")
_HARMLESS_P = re.compile(r"[\d:.,/-]+(?:/(?:tcp|udp))?\Z|[/~.$]")
_BEARER = re.compile(
    r"(?:bearer|basic|digest|negotiate|identified by)(?:[ \t]{1,8}|%20)(?!-)\"?[^\s,;)\]}\"]{4,}"
)
_CRYPT = re.compile(
    r"\$(?:1|2[abxy]?|5|6|7|y|apr1|argon2\w{0,2}|pbkdf2[\w-]{0,16}|scrypt)\$[^\s\"'`:]{8,}"
)
_PLACES = tuple(
    re.compile(pattern, re.M)
    for pattern in (
        # HOST:PORT:DATABASE:USER:PASSWORD in .pgpass
        r":(?:\d{4,5}|\*)(?::[A-Za-z_*][\w.*@-]{0,64}){2}:(?!-?\d[\d.e-]*$)(\S{1,256})$",
        r"(?:login|machine)[ \t]{1,8}\S{1,256}\s{1,64}password[ \t]{1,8}(\S{1,256})",
        r"login[ \t][^\n]{0,128}?(?<=\s)([0-9a-f]{32,64})(?!\S)",
        r"(?:login|auth)\([^\s,()=]{1,128},[ \t]{0,4}([\"'][^\"'\n]{1,256})",
        r"echo[ \t](?:-\w{1,4}[ \t])?([^|\n]{1,256})\|[^|\n]{0,128}(?:sudo -S|-stdin|chpasswd)",
        r"(?:密码|口令|пароль|ontraseña|asswort|ennwort|ot de passe)[ \t]?[:=：]([^\n]{1,256})",
    )
)
_PREFIX = (
    "hf_|api_org_|gh[a-z]_|github_pat_|gl[a-z]{2,8}-|GR1348941|sk-|sk_|rk_|pk_live_|whsec_"
    "|xox[a-z][-.]|xapp-|xwfp-|pypi-|dckr_[a-z]{2,4}_|npm_|A3T|AKIA|ASIA|ABIA|ACCA|ABSK|AROA|AIDA"
    "|AIza|ya29\\.|GOCSPX-|eyJ|gAAAA|LTAI|AKC|AKID|cmVmd|ATATT|ATCTT|ATBB|dapi|do[opr]_v1_"
    "|dp\\.[a-z]{2,8}\\.|dt0[a-z]\\d\\d\\.|EZ[AT]K|EAA[A-Z]|FLWSECK|fo1_|fm[12]_|FlyV1|gl(?:c|sa)_"
    "|hv[sbr]\\.|HRKU-|key-|lin_api_|NR[A-Z]{2}-|ntn_|secret_|pplx-|pscale_[a-z]{2,8}_|PMAK-|pn[ub]_"
    "|pul-|rdme_|rubygems_|SG\\.|sgp_|sha256~|shp[a-z]{2}_|shippo_|sntry[a-z]_|sq0[a-z]{3}-|tfp_"
    "|tskey-|wandb_v\\d_|r8_|gsk_|xai-|nvapi-|sbp_|sb_secret_|lsv2_|KGAT_|xkeysib-|AGE-SECRET-KEY-"
    "|ops_eyJ|p8e-|figd_|CLOJARS_|oy2|nfp_|vercel_|phc_|phx_|AQVN|t1\\.|y0_|PAT_|cfut_|v1\\.0-|tvly-"
    "|jina_|apify_api_"
)
_SHAPE = re.compile(
    rf"(?:{_PREFIX})[\w.~+/=%-]{{12,}}|(?:SK|AC)[0-9a-f]{{32}}|[0-9a-f]{{32}}-us\d{{1,2}}"
    r"|[MNO][\w-]{22,26}\.[\w-]{6}\.[\w-]{25,}|[\w~.]{3}\dQ~[\w.~-]{30,}"
    r"|A3-[A-Z0-9]{6}-[A-Z0-9-]{20,}|[\w-]{14}\.atlasv1\.[\w-]{40,}"
)
_LONG_WORD = re.compile(r"[A-Za-z0-9](?<![A-Za-z0-9].)[\w.~+-]{13,}")
_DIGIT = re.compile(r"\d")
_LETTERS = re.compile("[A-Za-z]{20}")
_AWS_SECRET = re.compile(r"[A-Za-z0-9/+](?<![\w+/=.~-].)[A-Za-z0-9/+]{39}(?![\w+/=.~-])")
_PUBLIC = re.compile(  # a hash of a host key or of a wheel, a public key
    r"(?:sha\d{3}[:=-]|(?:ssh-(?:rsa|dss|ed25519)|nistp\d{3}) )[\w+/=~-]*\Z", re.I
)
_BASE64 = re.compile(r"[\w+/=~-]+")
_OF_BASE64 = "_+/=~-" + string.ascii_letters + string.digits
_ESCAPED = ("\\n", "\\t", "\\r", "%3D", "%3A", "%22", "%20", "%2F")  # no part of a word


def plain(text: str) -> str:
    """Without what a terminal does not show: a secret could be hidden behind it."""
    if "\b" in text:
        text = _ERASED.sub("", text)
    return _INVISIBLE.sub("", text)


def masked_secrets(text: str) -> str:
    finders: tuple[Callable[[str], Spans], ...] = (
        _private_keys, _in_urls, _by_name, _by_option, _by_shape
    )  # fmt: skip
    spans = sorted(span for find in finders for span in find(text))
    parts: list[str] = []
    done = 0
    for start, end in spans:
        if start > done or not parts:
            parts += [text[done:start], MASK]
        done = max(done, end)
    return "".join((*parts, text[done:]))


def _private_keys(text: str) -> Spans:
    """Of a key without an end, as far as lines have a long word; one line, its last, may not."""
    marks = [*_KEY_MARK.finditer(text)]
    for m, after in zip(marks, (*marks[1:], None), strict=False):
        end = after.start() if after else len(text)
        if m[1] == "END":
            yield m.span()
        elif after and after[1] == "END":
            yield m.start(), after.end()
        else:
            last = _KEY_LAST.search(text, m.start(), end)
            yield m.start(), last.end() if last else end
    for m in _KEY_LINE.finditer(text):  # of a key whose head is cut off; not a hash, not a rule
        if re.search(r"[G-Zg-z+/]", m[1][:256]) and m[1].lower() != m[1]:
            yield m.span(1)
    yield from (m.span() for m in _PUTTY.finditer(text))


def _in_urls(text: str) -> Spans:
    for m in _URL.finditer(text):
        url = m[1]
        if "'" in text[max(0, m.start() - 16) : m.start()]:
            url = url.partition("'")[0]
        host, slash, _ = url.partition("/")
        has_password = ":" in host and not host.partition(":")[2][:5].isdigit()  # it may have a /
        login = url if has_password else "" if text.endswith("ssh", 0, m.start()) else host
        if at := login.rfind("@") + 1:
            yield m.start(1), m.start(1) + at
        if hook := _HOOK.search(url[:512]):
            yield m.start(1) + hook.end(), m.start(1) + len(url)
    for m in _PARAMETER.finditer(text):
        name, how = m[1].lower(), named(m[1])
        if (
            name in _URL_SECRETS
            or how is Named.SECRET
            or name.endswith(("-signature", "-credential"))
            or (how is Named.MAYBE and looks_random(m[2]))
        ):
            yield m.span(2)
    for m in _LOGIN.finditer(text):
        before = text[max(0, m.start() - 64) : m.start()]
        yield m.start() - len(before) + len(before.rstrip(_OF_NAMES)), m.end() - 1


def _by_name(text: str) -> Spans:
    done = 0
    for m in _NAME.finditer(_lower(text)):
        start = m.start()
        if start < done:
            continue
        around = text[max(0, start - 48) : start]
        apart = around.rstrip(_OF_NAMES)
        first = start - len(around) + len(apart)
        is_option, in_prose = text[first] == "-", m.lastgroup == "gap"
        if not is_option and (
            m.lastgroup == "line"
            or in_prose and text[first].islower() and _PROSE.match(text, m.end())
        ):  # fmt: skip
            continue
        before = apart[len(apart[:-1].rstrip(_OF_NAMES)) : -1] if apart[-1:] == " " else ""
        before = before.strip("-._")
        name = text[first : m.start("close")]
        if in_prose and name.isupper() and before.lower() in _SETS:
            name = f"-{name}"
        how = named(name, before)
        if how is Named.NO and not (m["gap"] and name.lower() == "login"):
            continue
        if found := _value(text, m, name, how, first):
            done = found[1]
            yield found


def _lower(text: str) -> str:
    """As long as the text."""
    return text.replace("\u0130", "I").lower()


def _value(
    text: str, m: re.Match[str], name: str, how: Named, start: int
) -> tuple[int, int] | None:
    at, is_option, after = m.end(), name[:1] == "-", m.lastgroup
    if _NOTHING.match(text, at) or _is_number(text, at, name):
        return None
    if after == "gap" and not is_option:
        return _in_prose(text, at, name, how, start)
    if _OPENS_BLOCK.match(text, at):
        return _block(text, at, start) if how is Named.SECRET and m["is"] else None
    quote = _OPENING.match(text, at)
    begin = quote.end() if quote else at
    if how is Named.MAYBE:
        found = _BARE.match(text, begin)
        return found.span() if found and looks_random(found[0]) else None
    if quote:
        return None if _NOTHING.match(text, begin) else (at, _closing(text, quote))
    if after == "tag":
        end = text.find("<", at, at + 4000)
        return (at, end) if end > at else None
    if (
        is_option
        or after == "is"
        and m["is"] != ":"
        and m.end("is") == at
        and m.start("is") == m.end("close")
    ):
        if is_option and text[at] == "-":
            return None
        return at, _word_end(text, at)
    if m["is"] == "=" and "pass" not in name.lower() and _CODE.match(text, at):
        return None
    found = _REST.match(text, at)
    return found.span() if found else None


def _is_number(text: str, at: int, name: str) -> bool:
    """A count, not a secret; passwords may be numbers."""
    return _NUMBER.match(text, at) is not None and not _PASSWORD.search(name)


def _closing(text: str, quote: re.Match[str]) -> int:
    """After the value's end; what follows without a space is part of a shell's word."""
    mark = quote[1]
    if mark in _QUOTED:
        found = _QUOTED[mark].match(text, quote.end())
        end = found.end() if found else -1
    else:
        end = text.find(mark, quote.end(), quote.end() + 8000)
        end = end + len(mark) if end >= 0 else end
    if end < 0:
        rest = _REST.match(text, quote.end())
        return rest.end() if rest else quote.end()
    glued = text[end : end + 2]
    apart = glued[:1] in " \t\r\n,;)]}&|<>\\" and glued != "\\'"
    return end if apart else _word_end(text, end)


def _word_end(text: str, at: int) -> int:
    found = _WORD.match(text, at)
    return found.end() if found else at


def _line_before(text: str, start: int) -> str:
    return text[max(0, start - 256) : start].rpartition("\n")[2]


def _block(text: str, at: int, start: int) -> tuple[int, int] | None:
    """Deeper indented lines under a name, or one random word on the next line."""
    line = _line_before(text, start)
    own = len(line) - len(line.lstrip(" \t"))
    first = at = text.find("\n", at, at + 8)
    while at >= 0 and (found := _LINE.match(text, at)) and found[2]:
        if len(found[1]) <= own and not (
            at == first and looks_random(found[2]) and " " not in found[2]
        ):
            break
        at = found.end()
    return (first + 1, at) if at > first >= 0 else None


def _in_prose(text: str, at: int, name: str, how: Named, start: int) -> tuple[int, int] | None:
    """password hunter2; the key is "x"; a line of a netrc file."""
    said = _IS.match(text, at)
    at = said.end() if said else at
    found = _WORD.match(text, at)
    if not found or _NOTHING.match(text, at) or name[-1] == "." or _OF_PROSE.match(text, at):
        return None
    word, end = found[0], _word_end(text, at)
    if how is not Named.SECRET or name.lower() == "pass":
        return (at, end) if len(word) >= 8 and looks_random(word) else None
    state = said and ":" not in said[0] and _STATE.match(word)
    lone = (
        text[end : end + 1] in ("", "\n", "\r")
        and not _line_before(text, start).strip()
        and not name.lower().endswith(_PLURAL)
        and not state
    )
    password = "passw" in name.lower()
    quoted = (said or password) and word[0] in "\"'"
    told = password and (not state if said else "|" in text[at - 4 : at])
    mixed = len(word) >= 6 and _DIGIT.search(word) and (
        said or _MIXED.search(word) or "pass" in name.lower()
    )  # fmt: skip
    parts = looks_random(word) or _PARTS.search(word)
    return (at, end) if lone or quoted or told or mixed or parts else None


def _by_option(text: str) -> Spans:
    """-u USER:PASSWORD, -p PASSWORD, and any short option with a random value."""
    done = 0
    for m in _SHORT.finditer(text):
        at, letter = m.end(), m[1][:1].replace("-", "u")
        if at < done:
            continue
        quote = _OPENING.match(text, at)
        begin = quote.end() if quote else at
        end = _closing(text, quote) if quote else _word_end(text, at)
        done = end
        value = text[begin : min(end, begin + 512)].strip("\"',])\\")
        line = _line_before(text, m.start())
        if _is_secret_option(letter, value, line, bool(m[2])):
            yield begin, end


def _is_secret_option(letter: str, value: str, line: str, apart: bool) -> bool:
    if not value or value[0] == "-" or _NOTHING.match(value):
        return False
    if letter in "akNpPwU" and _WITH_PASSWORD.search(line[-128:]):
        return True
    if letter in "uU":
        user, sign, password = value.partition("%" if letter == "U" else ":")
        return bool(sign and password) and not password.isdigit() and not password.startswith("//")
    if letter == "b":
        return "curl" in line and "=" in value
    if letter == "p" and apart:
        return len(value) >= 4 and not (
            _HARMLESS_P.match(value) or _MAKES_FOLDERS.search(line[-128:])
        )
    return looks_random(value)


def _by_shape(text: str) -> Spans:
    for m in _BEARER.finditer(_lower(text)):
        word = text[m.start() : m.end()].replace("%20", " ").split()[-1]
        if len(word) >= 16 or any(not c.isalpha() for c in word.rstrip(".:")):
            yield m.end() - len(word), m.end()
    yield from (m.span() for m in _CRYPT.finditer(text))
    yield from (m.span(1) for place in _PLACES for m in place.finditer(text))
    yield from (m.span() for m in _AWS_SECRET.finditer(text) if is_mixed(m[0]))
    shown = text
    for escaped in _ESCAPED:
        shown = shown.replace(escaped, " " * len(escaped))
    done = 0
    for m in _LONG_WORD.finditer(shown):
        at = m.start()
        if at < done:
            continue
        if shape := _SHAPE.match(shown, at):
            done = shape.end()
            if (
                _DIGIT.search(shape[0][:128])
                or looks_random(shape[0])
                or shape[0].startswith(("hf_", "eyJ"))
                or _LETTERS.search(shape[0])
            ):
                yield at, done
        elif not shown.startswith("_Z", max(0, at - 1)) and is_random(m[0]):  # a symbol of C++
            found = _BASE64.match(shown, at)
            done = max(found.end() if found else 0, m.end())
            before = shown[max(0, at - 128) : at]
            start = at - len(before) + len(before.rstrip(_OF_BASE64))
            if not _PUBLIC.search(shown, max(0, start - 16), at):
                yield start, done
