"""The settings of the web UI."""

from fencepost.config.setting import LOW, Config, setting


class RestUiConfig(Config):
    """Whether there is a web UI."""

    ui_enabled: bool = setting(
        "ui.enabled",
        default=True,
        importance=LOW,
        doc="Whether `listeners` have the [web UI](../how-to/web-ui.md), at `/ui`, too. It is protected as the rest of "
        "the REST API is, with the same roles.",
    )
