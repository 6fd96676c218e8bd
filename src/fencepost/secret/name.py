"""Which names are those of secrets: keys of configs, fields of JSON, settings of Spark (E11).

The one table of it. A name that it takes for a secret and that is none only hides a value; so in doubt it is one.
"""

import re
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
_ABOUT_ONE = re.compile(
    r"(^|\.)(algorithm|at|class|column|enabled|encoding|endpoint|field|fields|file|format|header|interval|length"
    r"|location|max|min|mode|ms|name|path|pattern|policy|prefix|provider|providers|seconds|size|source|topic|type|uri|url"
    r"|version)$"
)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Say whether a key has the name of a secret, such as `fs.s3a.secret.key`, `apiKey` or `db_password`."""
    words = _SEPARATOR.sub(".", _CAMEL.sub(".", name).lower())
    words = _AZURE_HOST.sub("", words).strip(".")
    return _SECRET.search(words) is not None and _ABOUT_ONE.search(words) is None


def is_secret_field(name: str) -> bool:
    """Say the same of a field in a JSON object that is a secret as a whole: there, any key is one."""
    return is_secret_name(name) or "key" in name.lower()
