"""Decide what is secret by name: variables, options, fields and files. The only such list."""

import fnmatch
import re
from functools import lru_cache


def _words(text):
    # type: (str) -> frozenset[str]
    return frozenset(text.split())


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# a name with one of these words is that of a secret
_ALWAYS = _words(
    "password passwords passwd passphrase passcode pwd pw psk pat secret secrets credential"
    " credentials cred creds apikeys authorization cookie cookies jwt mnemonic otp totp webhook"
    " sid sessid sessionid dsn sig signature private"
)
_ENDS = ("password", "passwd", "passphrase", "secret", "token", "key", "pwd", "pass")
_HARMLESS_ENDS = _words(
    "monkey donkey turkey hockey jockey whiskey smokey hotkey pubkey publickey hostkey bypass"
    " compass encompass surpass trespass overpass underpass multipass askpass"
)
# a name that ends with one of these, unless what they count or index stands before them
_LAST = frozenset(("token", "key", "auth", "pass"))
_LAST_OF_MANY = frozenset(("tokens", "keys"))
_OF_MANY = _words("access api auth bearer private refresh secret")
_COUNTED = _words(
    "pad eos bos unk sep cls mask special image audio video stop start end begin next last first"
    " prev max min num per total input output prompt completion generated train vocab each every by"
    " n single decoder forced public pub host primary foreign sort cache dict metric state group"
    " index row column query attention attn config map lookup partition object store hot arrow"
    " press layer kv self cross padding text label content feature target document caption question"
    " answer response reward chosen rejected field loss score"
)
_AFTER = _words(
    "base b value hex raw text string plain old new current prod production dev test live staging"
    " main primary secondary backup id key token hash"
)
_HARMLESS = ("PWD", "OLDPWD", "secret-env", "secret_env")  # folders, names of variables

ACCOUNT_FILES = (  # of clouds, registries and other services; all in small letters
    ".aws",
    ".azure",
    ".boto",
    ".databrickscfg",
    ".docker",
    ".dockercfg",
    ".git-credentials",
    ".gnupg",
    ".htpasswd",
    ".kube",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    ".ssh",
    ".vault-token",
    "_netrc",
)
KEY_FILES = (
    "*.gpg",
    "*.jks",
    "*.kdbx",
    "*.key",
    "*.keystore",
    "*.keytab",
    "*.kubeconfig",
    "*.ovpn",
    "*.p12",
    "*.pem",
    "*.pfx",
    "*.ppk",
    "*.tfstate",
    "*.tfvars",
    "client_secret*.json",
    "credentials.json",
    "id_*",
    "kubeconfig",
    "kubeconfig.y*ml",
    "*.p8",
    "*.pk8",
    "*.der",
    "secret.json",
    "secret.toml",
    "secret.y*ml",
    "secrets.json",
    "secrets.toml",
    "secrets.y*ml",
    ".secrets.*",
    "service[-_]account*.json",
    "wallet.dat",
)
# copies of editors, programs and people: key.pem~, .key.pem.swp, "key.pem (copy)", Copy of x
_COPY = re.compile(
    r"([ ._-]+\(?(bak|backup|copy|kopi[ea]|c[oó]pia|copie|old|orig|save|new|tmp|sw[a-p]|un"
    r"|(dpkg|ucf)-\w+|rpm\w+)[0-9]*\)?"
    r"|\.[0-9]+| ?\([0-9]+\)|\.~[0-9]+~|~|#|\.(gz|xz|bz2|zip|zst|tar|tgz|7z|asc))+\Z"
)
_COPY_OF = re.compile(
    r"((copy|backup|kopi[ea]|c[oó]pia|copie)( \([0-9]+\))?[ _-]+((of|von|de|di)[ _-]+)?|#|\.#|\._)"
)
# of data, where names as id_0001.png are common; the last two are those of a Hugging Face cache
DATA_SECRETS = (
    ".env*",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "token",
    "stored_tokens",
) + ACCOUNT_FILES
PROJECT_SECRETS = (".env*",) + KEY_FILES + ACCOUNT_FILES
_CODE = "id_*.py"  # a module that is called so is code; a run without it would break
_PRIVATE_PATH = re.compile(
    r"secret|credential|passw|(?<![a-z])(api_?keys?|auth|keys?|private|pwd|token)(?![a-z])", re.I
)
_KEY_STORE = re.compile(
    r"wallet|key(store|ring|chain)|secring|recovery.?codes?|^(ssh|gnupg|gpg)$", re.I
)


@lru_cache(4096)
def is_secret_name(name):
    # type: (str) -> bool
    """Decide whether a variable, option or field of this name (HF_TOKEN, --api-key, dbPassword)
    holds a secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if name.lstrip("-") in _HARMLESS or not words:
        return False
    if any(word in _ALWAYS or _ends_so(word) for word in words):
        return True
    while len(words) > 1 and words[-1] in _AFTER and words[-1] not in _LAST:
        words.pop()
    before = words[-2] if len(words) > 1 else ""
    if words[-1] in _LAST_OF_MANY:
        return before in _OF_MANY
    return words[-1] in _LAST and before not in _COUNTED


def _ends_so(word):
    # type: (str) -> bool
    return word.endswith(_ENDS) and word not in _LAST and word not in _HARMLESS_ENDS


def is_secret_file(name):
    # type: (str) -> bool
    """Decide whether a file or folder of this name holds keys or an account's login."""
    return any(
        _is_one_of(base, PROJECT_SECRETS) and not _is_one_of(base, (_CODE,))
        for base in _originals(name.lower())
    )


def _originals(name):
    # type: (str) -> set[str]
    """Return the names of which this may be a copy, and the name itself."""
    stripped = _COPY.sub("", _COPY_OF.sub("", name, 1) if _COPY_OF.match(name) else name)
    stem, dot, end = stripped.rpartition(".")
    return {name, stripped, stripped.lstrip("."), _COPY.sub("", stem) + dot + end}


def is_secret_in_data(name):
    # type: (str) -> bool
    """Decide the same for a file of a dataset, where id_0001.png is data."""
    return any(_is_one_of(base, DATA_SECRETS) for base in _originals(name.lower()))


def is_private_path(path):
    # type: (str) -> bool
    """Decide whether a word in a path says that its content is private."""
    return bool(_PRIVATE_PATH.search(path))


def is_secret_stem(stem):
    # type: (str) -> bool
    """Decide whether a text file holds a secret, by its name without the suffix."""
    return any(_KEY_STORE.search(n) or is_secret_name(n) for n in (stem, stem.lower()))


def _is_one_of(name, globs):
    # type: (str, tuple[str, ...]) -> bool
    return _pattern_of(globs).match(name) is not None


@lru_cache(8)
def _pattern_of(globs):
    # type: (tuple[str, ...]) -> re.Pattern[str]
    return re.compile("|".join(map(fnmatch.translate, globs)))
