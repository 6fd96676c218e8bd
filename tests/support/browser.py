"""A real Chromium, Debian's, without a window; driven by Debian's chromedriver, so nothing is downloaded."""

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains

from fencepost.embedded.home import locked
from fencepost.testing import eventually

_CHROMIUM, _DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
_PACKAGES = ("chromium", "chromium-driver")
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # tests may be root's
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--lang=en",
)
# What a page must not do: each violation of its policy, and each dialog of a script that should be text.
_WATCH = """
window.wrongs = [];
const note = (e) => window.wrongs.push(e.violatedDirective + " " + e.blockedURI);
document.addEventListener("securitypolicyviolation", note);
for (const name of ["alert", "confirm", "prompt"]) window[name] = (text) => window.wrongs.push(name + " " + text);
"""


class Browser:
    """One window of 1280 by 900, at a worker's address."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.url = url
        self.wrongs: list[str] = []

    def be(self, user: str, password: str) -> None:
        """Send these credentials with each request, and forget what pages have kept."""
        self.driver.delete_all_cookies()
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._cdp("Network.enable", {})
        self._cdp("Network.setExtraHTTPHeaders", {"headers": {"Authorization": f"Basic {basic}"}})

    def open(self, *segments: str, query: str = "") -> None:
        """Load a page below `/ui`; each segment is percent-encoded."""
        self.note()
        self.driver.get(f"{self.url}/ui" + "".join(f"/{quote(one, safe='')}" for one in segments) + query)

    def note(self) -> None:
        """Keep what this page has done wrong, before another is loaded."""
        self.wrongs += self.driver.execute_script("return window.wrongs || []")
        self.wrongs += [
            entry["message"] for entry in self.driver.get_log("browser") if "Content Security" in str(entry)
        ]

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def text(self, css: str = "main") -> str:
        return str(self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", css))

    def see(self, text: str, css: str = "main", within_s: float = 60) -> None:
        """Wait until an element has a text."""
        eventually(lambda: text in self.text(css) or _missing(text, self.text(css)), within_s=within_s)

    def has(self, css: str) -> bool:
        return bool(self.driver.execute_script("return !!document.querySelector(arguments[0])", css))

    def focused(self) -> str:
        """Return what an assistive technology says of the element that has the focus: its role and its name."""
        tree: dict[str, Any] = self._cdp("Accessibility.getFullAXTree", {})
        for node in tree["nodes"]:
            states = {one["name"]: one["value"].get("value") for one in node.get("properties", ())}
            if states.get("focused") and node["role"]["value"] != "RootWebArea":
                return f"{node['role']['value']} {node.get('name', {}).get('value', '')}".strip()
        return ""

    def spoken(self) -> list[tuple[str, str]]:
        """Return the roles and names of the accessibility tree."""
        tree: dict[str, Any] = self._cdp("Accessibility.getFullAXTree", {})
        return [
            (node["role"]["value"], node.get("name", {}).get("value", "").strip())
            for node in tree["nodes"]
            if not node.get("ignored") and "role" in node
        ]

    def go_dark(self, *, is_dark: bool) -> None:
        value = "dark" if is_dark else "light"
        self._cdp("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": value}]})

    @contextmanager
    def of_width(self, width: int) -> Iterator[None]:
        """Show pages as a screen of this width does."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
        self._cdp("Emulation.setDeviceMetricsOverride", screen)
        try:
            yield
        finally:
            self._cdp("Emulation.clearDeviceMetricsOverride", {})

    def use_scripts(self, *, is_on: bool) -> None:
        self._cdp("Emulation.setScriptExecutionDisabled", {"value": not is_on})

    def picture(self, path: Path) -> None:
        """Keep what the window shows as a PNG of few colours' size."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._cdp("Page.captureScreenshot", {"format": "png"})["data"]))

    def _cdp(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.driver.execute_cdp_cmd(command, arguments)
        return found


@contextmanager
def running_browser(url: str) -> Iterator[Browser]:
    """Run a browser. Skips the test where there is none and this user cannot install it."""
    _ensure_installed(_PACKAGES)
    options = webdriver.ChromeOptions()
    options.binary_location = _CHROMIUM
    for argument in (*_ARGUMENTS, "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_DRIVER))
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
        yield Browser(driver, url)
    finally:
        driver.quit()


def _ensure_installed(packages: Sequence[str]) -> None:
    if all(map(os.path.exists, (_CHROMIUM, _DRIVER))):
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip(f"no Chromium is installed: {' '.join(command)}")
    with locked(Path("/tmp/fencepost-chromium.lock")):
        if not os.path.exists(_DRIVER):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for step in (["apt-get", "update"], command):
                done = subprocess.run(step, capture_output=True, text=True, check=False, env=environment)
                if done.returncode:
                    pytest.skip(f"no Chromium is installed, and {' '.join(step)} failed: {done.stderr[-300:]}")


def _missing(text: str, shown: str) -> bool:
    raise AssertionError(f"{text!r} is not in {shown[:2000]!r}")
