"""The web UI in a real browser: what it shows and does, with keys alone, for each role, and in the dark."""

from support.browser import Browser
from support.ui_scene import NASTY, Scene


def test_connectors_are_shown(browser: Browser, scene: Scene) -> None:
    browser.open()
    browser.see("orders-source")
    browser.see(NASTY)
