"""The settings of the web UI."""

from fencepost.config.setting import LOW, Config, setting
from fencepost.guide import guide


class RestUiConfig(Config):
    """Whether there is a web UI."""

    ui_enabled: bool = setting(
        "ui.enabled",
        default=True,
        importance=LOW,
        doc=f"Whether `listeners` have the web UI ({guide('how-to/web-ui')}), at `/ui`, too. It is protected as the "
        "rest of the REST API is, with the same roles.",
    )
