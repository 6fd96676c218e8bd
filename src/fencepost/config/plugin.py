"""The settings of plug-ins, and of what those that are built in may read."""

from collections.abc import Iterator
from pathlib import Path

from fencepost.config.check import each, one_of, parsed_by
from fencepost.config.file_limit import ALLOWED
from fencepost.config.setting import LOW, MEDIUM, Config, setting

_LIMITS = {
    "EnvVarConfigProvider": "allowlist.pattern",
    "FileConfigProvider": "allowed.paths",
    "DirectoryConfigProvider": "allowed.paths",
}
"""The providers that read everything unless this setting limits them."""


def _absolute(text: str) -> None:
    if not Path(text).is_absolute():
        raise ValueError("must be absolute paths, and none of them empty")


class PluginConfig(Config):
    """Which plug-ins there are, and what limits them."""

    config_providers: list[str] = setting(
        "config.providers",
        default=[],
        importance=LOW,
        doc="Names of the providers that look up `${provider:path:key}` in this file and in configs of connectors. "
        "`config.providers.NAME.class` is the class of each, and `config.providers.NAME.param.*` are its settings.",
    )
    plugin_path: list[str] | None = setting(
        "plugin.path",
        default=None,
        importance=LOW,
        doc="Directories with plug-ins: Python files and packages, and directories of jars, as Kafka Connect has them. "
        "Installed packages are found by their entry points.",
    )
    plugin_disabled: list[str] = setting(
        "plugin.disabled",
        default=[],
        importance=LOW,
        doc="Classes that configs may not name, although they are installed or built in: in full, or as a config names "
        "them, such as `FileStreamSource,FileStreamSink`.",
    )
    plugin_discovery: str = setting(
        "plugin.discovery",
        default="hybrid_warn",
        check=one_of("only_scan", "hybrid_warn", "hybrid_fail", "service_load"),
        importance=LOW,
        doc="How Java looks for plug-ins.",
        without_effect="plug-ins are found in the directories of plugin.path and by their entry points",
    )
    file_allowed_paths: list[str] | None = setting(
        ALLOWED,
        default=None,
        check=each(parsed_by(_absolute, "absolute paths")),
        importance=MEDIUM,
        doc="The only files and directories of this machine, with everything below them, that FileStreamSource, "
        "FileStreamSink, SpoolDirectorySource, FilesSink and JdbcSource (SQLite) may use. Unset: any. The files that "
        "this file names, this file itself and `plugin.path` are refused in any case.",
    )

    def unlimited(self) -> Iterator[str]:
        """Yield a warning for each way in which connectors can read whatever the worker can."""
        for name in self.config_providers:
            prefix = f"{PluginConfig.key_of('config_providers')}.{name}."
            limit = _LIMITS.get(str(self.originals.get(f"{prefix}class", "")).rpartition(".")[2])
            if limit is not None and not self.originals.get(f"{prefix}param.{limit}"):
                yield (
                    f"'{prefix}param.{limit}' is not set: whoever may edit a connector can read whatever this provider "
                    "can; set it to what configs need"
                )
        if self.file_allowed_paths is None:
            yield (
                f"'{ALLOWED}' is not set: whoever may edit a connector can have files read and written as this "
                "worker; set it to the directories that connectors need"
            )
