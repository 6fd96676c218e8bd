"""The worker's own file: its references are looked up once, when the worker starts."""

from collections.abc import Mapping

from fencepost.api import ConfigError
from fencepost.config.raw import names_in
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import use_plugin_path
from fencepost.reference.providers import providers_of

_JAVA_OPTIONS = WorkerConfig.key_of("java_host_options")
_PLUGIN_PATH = WorkerConfig.key_of("plugin_path")


def worker_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a worker's, or a mirror's, file with all references replaced.

    The settings of providers stay as they are. Providers may be in the directories of `plugin.path`, which therefore
    cannot be a reference. Raises ConfigError with all faults.
    """
    directories = properties.get(_PLUGIN_PATH, "")
    if "${" not in directories:
        options = properties.get(_JAVA_OPTIONS, "")
        use_plugin_path(names_in(directories), options.split())
    found = providers_of(properties).of_worker.look_up(properties)
    if _PLUGIN_PATH in found.values and found.values[_PLUGIN_PATH] != directories:
        raise ConfigError(f"{_PLUGIN_PATH}: it names where providers are found, so it cannot be a reference: write it")
    found.keep_hidden()
    return found.require_now()
