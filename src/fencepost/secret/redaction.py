"""Secrets within texts, known by their form alone: `user:password@host`, `password=…`, a private key; and names of
secrets, keys of configs, fields of JSON or settings of Spark (E11).

It is below settings and logs: both show texts that users have written. There is one table of names. A name that it
takes for a secret and that is none only hides a value; so in doubt it is one.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

CHANNEL_SECRET = "FENCEPOST_CHANNEL_SECRET"
"""The environment variable that carries the channel's secret to slots; Spark redacts it by its name."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATOR = re.compile(r"[^a-z0-9]+")
# Hadoop's keys for Azure end with the host of the account.
_AZURE_HOST = re.compile(r"\.[a-z0-9]+\.(blob|dfs|file|queue|table)\.core\.windows\.net$")
_SECRET = re.compile(
    r"pass(word|wd|phrase|code)|(^|\.)pass$|(^|\.)pwd(\.|$)|secret|credential|authorization|token(\.|$)|(^|\.)sas(\.|$)"
    r"|(access|api|auth|bearer|hec|refresh|session)\.?tokens$|(^|\.)(cookies?|jwt)$"
    r"|jaas\.?config|keystore\.?key$|auth\.?user\.?info"
    r"|(access|account|api|auth|decrypt(ion)?|encrypt(ion)?|hmac|master|private|shared|sign(ing)?|ssh|sse|storage)\.?key"
)
# Names of what is about a secret: where it is, what it is called, which kind of it.
_NOT_ITSELF = re.compile(
    r"(^|\.)(algorithm|at|class|column|enabled|encoding|endpoint|field|fields|file|format|header|interval|length"
    r"|location|max|min|mode|ms|name|path|pattern|policy|prefix|provider|providers|seconds|size|source|topic|type|uri|url"
    r"|version)$"
)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Say whether a key has the name of a secret, such as `fs.s3a.secret.key`, `apiKey` or `db_password`."""
    words = _SEPARATOR.sub(".", _CAMEL.sub(".", name).lower())
    words = _AZURE_HOST.sub("", words).strip(".")
    return _SECRET.search(words) is not None and _NOT_ITSELF.search(words) is None


def is_secret_field(name: str) -> bool:
    """Say the same of a field in a JSON object that is a secret as a whole: there, any key is one."""
    return is_secret_name(name) or "key" in name.lower()


HIDDEN = "[hidden]"

_WORDS = ("password", "passwd", "passphrase", "secret", "pwd=", "accountkey", "sharedaccess")
_NAME = "(?:password|passwd|passphrase|secret)"
# Repetitions have limits, so that no text takes long.
# Up to the last @ before the path, as parsers of URLs read it. Behind a port there is no password.
_URL = re.compile(r"""://(?!\[)[^/\s:]{0,256}:(?:([^/\s]{1,512})|(?!\d*/)([^\s"'<>]{1,512}))@""")
_ORACLE = re.compile(r""":(?:thin|oci8?):[^\s/@]{1,256}/([^\s]{1,256})@""", re.IGNORECASE)  # JDBC, without //
# Without any scheme, also in a list; neither a path nor an address such as mailto:name@host
_ADDRESS = re.compile(
    r"""(?:^|[\s,;="'|])(?!(?:jdbc|mailto|sips?|xmpp|acct):)[^\s/:@,;="'|]{0,256}"""
    r""":(?![/\\"'])([^\s,]{0,255}[^\s@:,])@(?=[\w\[])""",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    rf"""(?:{_NAME}\w{{0,64}}\s{{0,8}}=\s{{0,8}}|[;?&]pwd=|accountkey=|sharedaccess(?:key|signature)=)"""
    r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'"""
    r"""|(\\{1,8}["'])(.{1,512}?)(?<!\\)\3"""  # within a text that is quoted itself
    r"""|\{((?:[^}]|\}\}){1,512})\}(?=[;\s"']|$)|(?!\\+["'])([^\s;&"']+))""",
    re.IGNORECASE,
)
# In a URL; elsewhere, as in a query of SQL, `password = x` need not be one. `passwordCharacterEncoding` names none.
_ABOUT_ONE = "encoding|less|length|type|policy|provider|expir"
_PARAMETER = re.compile(
    rf"[;?&](?:[\w.-]{{0,64}}{_NAME}(?!\w{{0,64}}(?:{_ABOUT_ONE}))\w{{0,64}}|pwd)=[^\s;&]", re.IGNORECASE
)
# Secrets whatever their key: a private key in PEM, what a caller sends to a server, the key of an account of Azure and
# its signed URLs.
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY-----.*?)(?=-----END|$)", re.DOTALL)
_SENT = re.compile(r"""(?:^|[:=,"'])\s{0,8}bearer\s{1,8}((?!\$\{)[\w.~+/-]{8,}=*)""", re.IGNORECASE)
# `basic` is a word of other texts, too: what follows has the look of Base64.
_BASIC = re.compile(
    r"""(?:^|[:=,"'])\s{0,8}(?i:basic)\s{1,8}((?!\$\{)(?=\S{0,64}[a-z]\S{0,64}[A-Z0-9])[\w.~+/-]{8,}=*)"""
)
_HEADER = re.compile(
    r"""(?<![\w-])(?:authorization|cookie|api-key|x-[a-z0-9-]{0,40}(?:key|secret|token))["']?\s{0,8}:\s{0,8}["']?"""
    r"""(?:[\w-]{1,32}\s{1,8})?((?!\$\{|\[hidden\]|:)[^\s"',;|]{8,})""",
    re.IGNORECASE,
)
_SIGNED = re.compile(r"[?&]sig=((?!\$\{)[^\s&\"']{8,})")
_ACCOUNT_KEY = re.compile(r"(?:accountkey|sharedaccess(?:key|signature))=(?!\$\{)[^\s;]", re.IGNORECASE)
_HEADERS, _HEADER_WORDS = (_SENT, _BASIC, _HEADER), ("bearer", "basic", "authorization", "cookie", "api-key", "x-")
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_MOST_READINGS = 8


def has_password(value: str) -> bool:
    """Say whether a text contains a password, such as a JAAS config or a URL with one."""
    return (_may_assign(value) and _ASSIGNED.search(value) is not None) or has_login(value) or has_key(value)


def has_key(value: str) -> bool:
    """Say whether a text contains a private key, a header with a secret, or the key of an account."""
    return any(pattern.search(value) for pattern in (*_keys(value), _ACCOUNT_KEY))


def has_login(value: str) -> bool:
    """Say whether a text contains an address with a password.

    That is a user with a password before a host, `db://me:pw@host`, `me:pw@host,me:pw@other`, or a parameter of a URL,
    `jdbc:db://host;password=pw`.
    """
    if "@" in value and any(pattern.search(value) for pattern in (_URL, _ORACLE, _ADDRESS)):
        return True
    if not _may_assign(value):
        return False
    return any("://" in word or word.startswith("jdbc:") for word in value.split() if _PARAMETER.search(word))


def passwords(value: str) -> Iterator[str]:
    """Yield the passwords in a text, in each way in which one may be meant: it may contain `@` or a comma."""
    for match in _ASSIGNED.finditer(value):
        text = match[match.lastindex or 0]
        yield text
        yield text.partition(",")[0]
    for pattern in _keys(value):
        yield from (match[1] for match in pattern.finditer(value))
    if "@" not in value:
        return
    for pattern in (_URL, _ORACLE, _ADDRESS):
        for match in pattern.finditer(value):
            text = match[match.lastindex or 0]
            ends = [each.start() for each in re.finditer("@", text)][:_MOST_READINGS]
            yield from (text[:end] for end in ends)
            yield text
            following = text.partition(",")[2]
            yield from (other[1] for other in _ADDRESS.finditer(f",{following}@host"))


def redacted(text: str) -> str:
    """Return a text with `[hidden]` in place of the passwords in it. References to config providers stay."""
    if "@" in text:
        for pattern in (_URL, _ORACLE, _ADDRESS):
            text = pattern.sub(_hidden, text)
    for pattern in _keys(text):
        text = pattern.sub(_hidden, text)
    return _ASSIGNED.sub(_hidden, text) if _may_assign(text) else text


def _keys(text: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns to search for: nearly no line of a log has a header."""
    lower = text.lower()
    return (_PRIVATE_KEY, _SIGNED, *(_HEADERS if any(word in lower for word in _HEADER_WORDS) else ()))


def _may_assign(text: str) -> bool:
    """Say whether to search for passwords that have a name: nearly no line of a log has one."""
    return "=" in text and any(word in text.lower() for word in _WORDS)


def _hidden(match: re.Match[str]) -> str:
    group = match.lastindex or 0
    if not match[group] or _REFERENCE.fullmatch(match[group]):
        return match[0]
    start, end = (place - match.start() for place in match.span(group))
    return f"{match[0][:start]}{HIDDEN}{match[0][end:]}"
