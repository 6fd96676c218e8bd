"""The web UI in a real browser: what it shows and does, with keys alone, for each role, in the dark."""

import os
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from fencepost.guide import pages
from fencepost.testing import eventually
from support.browser import Browser
from support.ui_scene import NASTY, TRACE, Scene

ORDERS = ("connectors", "orders-source")
PICKY = ("connectors", "orders-picky")
PAGES = [
    (),
    ("lineage",),
    ("workers",),
    ("retention",),
    ("new",),
    ORDERS,
    ("connectors", "clicks"),
    ("connectors", NASTY),
    *(("connectors", "orders-to-file", page) for page in ("config", "edit", "offsets", "logs", "dead-letters")),
    ("connectors", "payments", "offsets"),
    (*PICKY, "dead-letters"),
    (*PICKY, "topics", "orders-picky"),
    ("connectors", "absent"),
]
NAMED = ("button", "link", "textbox", "searchbox", "combobox", "checkbox", "image", "region", "navigation")

WIDEST = "return document.documentElement.scrollWidth"

# The text of a page that is harder to read than WCAG 2.2 AA allows, and why.
FAINT = """
const linear = (v) => (v /= 255, v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
const luminance = (c) => { const [r, g, b] = c.map(linear);
  return .2126 * r + .7152 * g + .0722 * b; };
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const ground = (e) => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor);
  if (c.length < 4 || c[3] > .99) return c.slice(0, 3); } return [255, 255, 255]; };
const found = [];
for (const e of document.querySelectorAll("main *, header *")) {
  if (e.closest("svg, select, .unseen") || !e.checkVisibility()) continue;
  if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
  const [a, b] = [luminance(numbers(getComputedStyle(e).color).slice(0, 3)), luminance(ground(e))];
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < 4.5) found.push(`${e.textContent.trim().slice(0, 40)}: ${ratio.toFixed(1)}`);
}
return found;
"""


def test_the_list_shows_connectors_and_refreshes_itself(browser: Browser, scene: Scene) -> None:
    browser.open()
    for text in ("orders-source", "clicks", "payments", NASTY, "Failed", "Stopped"):
        browser.see(text)
    browser.see(" /s", within_s=90)  # of a rate, which is known after a while
    browser.see("stopped", ".tally")


def test_a_topic_leads_to_its_first_and_last_records(browser: Browser) -> None:
    browser.open(*ORDERS)
    eventually(lambda: browser.driver.find_elements(By.LINK_TEXT, "orders"), within_s=60)[0].click()
    browser.see("Last records")
    browser.see("First records")
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 20
    browser.open("lineage")
    assert [link.get_attribute("href") for link in browser.driver.find_elements(By.LINK_TEXT, "orders-picky")][:1]
    browser.be("vera", "of vera")
    browser.open(*ORDERS)
    browser.see("orders", ".chips")
    assert browser.driver.find_elements(By.LINK_TEXT, "orders") == []


def test_names_and_traces_are_text(browser: Browser) -> None:
    browser.open()
    browser.driver.find_element(By.LINK_TEXT, NASTY).click()
    browser.see(NASTY, "h1")
    browser.open("connectors", "clicks")
    browser.see(TRACE, "main pre")


def test_each_page_has_accessible_names_and_landmarks(browser: Browser) -> None:
    """What can be used has a name, and each page has its landmarks and one heading of the first level."""
    for page in PAGES:
        browser.open(*page)
        browser.see("", "main h1")
        spoken = browser.spoken()
        assert [one for one in spoken if one[0] in NAMED and not one[1]] == [], page
        roles = [role for role, _ in spoken]
        assert (roles.count("main"), roles.count("banner")) == (1, 1), page
        assert len(browser.driver.find_elements(By.TAG_NAME, "h1")) == 1, page


@pytest.mark.parametrize("is_dark", [False, True])
def test_each_page_can_be_read_by_day_and_in_the_dark(browser: Browser, is_dark: bool) -> None:
    browser.go_dark(is_dark=is_dark)
    for page in PAGES:
        browser.open(*page)
        assert browser.driver.execute_script(FAINT) == [], page
    ground = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(14, 20, 26)") == is_dark


@pytest.mark.parametrize("width", [390, 1280])
def test_each_page_fits_a_phone_and_a_desk(browser: Browser, width: int) -> None:
    with browser.of_width(width):
        for page in PAGES:
            browser.open(*page)
            browser.see("", "main h1")
            assert browser.driver.execute_script(WIDEST) <= width, page
        browser.open("lineage")
        cut = "const e = document.querySelector('.lineage'); return e.scrollWidth - e.clientWidth"
        assert width == 390 or browser.driver.execute_script(cut) <= 0


def test_everything_can_be_reached_with_keys_alone(browser: Browser) -> None:
    browser.open(query="?sort=-name")
    browser.press(Keys.TAB)
    assert browser.focused() == "link Skip to content"
    browser.press(Keys.ENTER)
    passed = _tab_to(browser, "searchbox Name or class")
    assert "link New connector" in passed
    browser.press("orders-s")
    eventually(lambda: "payments" not in browser.text("#rows"), within_s=60)
    assert "button Filter" in _tab_to(browser, "link orders-source")
    browser.press(Keys.ENTER)
    browser.see("orders-source", "h1")
    assert "link Skip to content" in _tab_to(browser, "button Pause")
    browser.press(Keys.ENTER)
    browser.see("Paused", "#live .facts")
    _tab_to(browser, "button Resume")
    browser.press(Keys.ENTER)
    browser.see("Running", "#live .facts")


def test_a_focus_stays_where_it_is_when_the_page_is_refreshed(browser: Browser) -> None:
    browser.open()
    browser.driver.execute_script("document.getElementById('c-/ui/connectors/orders-source').focus()")
    browser.driver.execute_script("htmx.ajax('GET', '/ui/rows', {target: '#rows', swap: 'outerHTML'})")
    browser.driver.execute_script("window.old = document.getElementById('rows')")
    eventually(lambda: browser.driver.execute_script("return !window.old.isConnected") or None, within_s=60)
    assert browser.focused() == "link orders-source"


def test_a_page_shows_and_offers_only_actions_permitted_to_its_reader(browser: Browser) -> None:
    browser.be("vera", "of vera")
    browser.open()
    browser.see("orders-to-file")
    assert "clicks" not in browser.text()
    assert not browser.has("a[href='/ui/new']")
    browser.open(*ORDERS)
    browser.see("Tasks")
    assert not browser.has("main form")
    assert "Logs" not in browser.text("nav.tabs")
    for page in (("connectors", "clicks"), (*ORDERS, "logs"), ("connectors", "orders-to-file", "edit"), ("new",)):
        browser.open(*page)
        browser.see("vera needs the role")
    browser.be("otto", "of otto")
    browser.open(*ORDERS)
    browser.see("Pause")
    browser.see("Logs", "nav.tabs")
    browser.open(*ORDERS, "config")
    browser.see("rows.per.second")
    assert not browser.has("main .actions")


def test_no_page_shows_a_secret(browser: Browser) -> None:
    for page in ("config", "edit", "dead-letters", "logs"):
        browser.open("connectors", "orders-to-file", page)
        assert "never to be shown" not in browser.driver.page_source, page
    browser.open("connectors", "orders-to-file", "config")
    browser.see("[hidden]")


def test_a_connector_is_created_with_a_form_that_names_wrong_values(browser: Browser, scene: Scene) -> None:
    browser.open("new")
    browser.driver.find_element(By.PARTIAL_LINK_TEXT, "DatagenConnector").click()
    browser.see("New DatagenConnector")
    rows = browser.driver.find_element(By.NAME, "c.rows.per.second")
    rows.send_keys("many", Keys.TAB)
    browser.see("many", "#e-f-rows-2e-per-2e-second")
    eventually(lambda: rows.get_attribute("aria-invalid") == "true", within_s=60)
    described = (rows.get_attribute("aria-describedby") or "").split()
    assert rows.accessible_name == "rows.per.second"
    assert "e-f-rows-2e-per-2e-second" in described
    rows.clear()
    rows.send_keys("2")
    browser.driver.find_element(By.NAME, "c.topic").send_keys("made")
    browser.driver.find_element(By.NAME, "c.name").send_keys("made here")
    browser.driver.find_element(By.CSS_SELECTOR, "button.primary").click()
    browser.see("made here", "h1")
    scene.worker.wait_for_tasks("made%20here", "RUNNING")
    assert scene.worker.rest.get("/connectors/made%20here/config").json()["rows.per.second"] == "2"
    browser.open("connectors", "made here", "delete")
    browser.driver.find_element(By.CSS_SELECTOR, "button.danger").click()
    browser.see("Connectors", "h1")
    eventually(lambda: "made here" not in scene.worker.rest.get("/connectors").json(), within_s=60)


def test_offsets_are_moved_after_a_preview(browser: Browser, scene: Scene) -> None:
    browser.open("connectors", "payments", "offsets")
    browser.driver.find_element(By.NAME, "p.new").send_keys('{"task": 0, "tasks": 1}')
    browser.driver.find_element(By.NAME, "o.new").send_keys('{"row": 41}')
    browser.driver.find_element(By.CSS_SELECTOR, "button.primary").click()
    browser.see('{"row": 41}', "code.new")
    assert scene.worker.rest.get("/connectors/payments/offsets").json() == {"offsets": []}
    browser.driver.find_element(By.CSS_SELECTOR, "button.primary").click()
    browser.see('{"row": 41}', "tbody tr:first-child")

    def moved() -> bool:
        (found,) = scene.worker.rest.get("/connectors/payments/offsets").json()["offsets"]
        return bool(found["offset"] == {"row": 41})

    eventually(moved, within_s=60)


def test_dead_letters_are_seen_selected_and_resent_with_keys_alone(browser: Browser, scene: Scene) -> None:
    before = eventually(lambda: _letters(scene) if len(_letters(scene)) >= 3 else None, within_s=120)
    assert before is not None
    browser.be("vera", "of vera")
    browser.open(*PICKY, "dead-letters")
    browser.see("needs the role operate")
    assert NASTY not in browser.text()
    browser.be("otto", "of otto")
    browser.open(*PICKY, "dead-letters")
    browser.see(NASTY, "#letters")
    assert not browser.has("#letters form")
    browser.be("sam", "of sam")
    browser.open(*PICKY, "dead-letters")
    browser.see(NASTY, "#letters")
    chosen = before[0]["letter"]
    _tab_to(browser, f"checkbox Select {chosen}", at_most=200)
    browser.press(Keys.SPACE)
    _tab_to(browser, "button Resend selected", at_most=200)
    browser.press(Keys.ENTER)
    browser.see("Resend 1 dead letter?")
    browser.see("orders-picky-again, which only this sink reads")
    assert not any(one["is_handled"] for one in _letters(scene) if one["letter"] in {b["letter"] for b in before})
    _tab_to(browser, "button Resend")
    browser.press(Keys.ENTER)
    browser.see("Resent: 1", "#resend")
    eventually(lambda: [one["letter"] for one in _letters(scene) if one["is_handled"]] == [chosen], within_s=60)
    # The sink refuses it once more: the letter of the letter says where the record was at first.
    again = eventually(lambda: _letters(scene) if len(_letters(scene)) > len(before) else None, within_s=120)
    assert again is not None
    assert again[0]["origin"]["topic"] == "orders-picky"
    browser.open(*PICKY, "dead-letters")
    browser.see("Handled", "#letters")
    assert not browser.has(f"input[value='{chosen}']")
    assert browser.has(f"input[value='{again[0]['letter']}']")


def _letters(scene: Scene) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scene.worker.rest.get("/connectors/orders-picky/dead-letters").json()["letters"]
    return found


def test_pages_and_their_forms_work_without_scripts(browser: Browser) -> None:
    browser.use_scripts(is_on=False)
    try:
        browser.open(query="?q=orders-s")
        assert "payments" not in browser.text()
        browser.open(*ORDERS)
        browser.driver.find_element(By.XPATH, "//button[text()='Pause']").click()
        eventually(lambda: browser.open(*ORDERS) or "Resume" in browser.text(), within_s=60)
        browser.driver.find_element(By.XPATH, "//button[text()='Resume']").click()
        eventually(lambda: browser.open(*ORDERS) or "Pause" in browser.text(), within_s=60)
    finally:
        browser.use_scripts(is_on=True)


@pytest.mark.parametrize("place", ["worker", "file"])
def test_the_guide_can_be_searched_on_a_worker_and_without_one(browser: Browser, place: str) -> None:
    if not pages():
        pytest.skip("the pages were not built: `make site` builds them")
    browser.open()
    if place == "worker":
        browser.driver.find_element(By.LINK_TEXT, "Guide").click()
    else:
        browser.driver.get(pages()["how-to/operate"].as_uri())
    browser.see("", "article h1")
    browser.driver.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("kerberos")
    browser.see("Secure the clients", ".md-search-result__list")


@pytest.mark.skipif("FENCEPOST_SCREENSHOTS" not in os.environ, reason="makes the pictures of docs/how-to/web-ui.md")
def test_pictures_of_the_pages_are_taken(browser: Browser, scene: Scene) -> None:
    directory = Path(os.environ["FENCEPOST_SCREENSHOTS"])
    archive = {"connector.class": "FileStreamSink", "topics": "orders", "file": "/absent/archive/orders.txt"}
    assert scene.worker.create("orders-archive", archive).status_code == 201
    scene.worker.wait_for_tasks("orders-archive", "FAILED")
    browser.be("sam", "of sam")
    browser.open("connectors", "orders-to-file")
    browser.see("4 min ago", within_s=400)  # of plots that show more than a beginning
    shown = {"connectors": (), "connector": ("connectors", "orders-to-file")}
    for name, page in shown.items():
        browser.open(*page)
        browser.see(" /s", within_s=90)
        browser.picture(directory / f"web-ui-{name}.png")
    shown = {
        "new": ("new",),
        "logs": ("connectors", "orders-archive", "logs"),
        "workers": ("workers",),
        "lineage": ("lineage",),
    }
    for name, page in shown.items():
        browser.open(*page)
        browser.see("", "main .card")
        browser.picture(directory / f"web-ui-{name}.png")
    browser.open(*PICKY, "dead-letters")
    browser.see("Waits", "#letters")
    browser.picture(directory / "web-ui-dead-letters.png")
    browser.go_dark(is_dark=True)
    browser.open(*ORDERS, "edit")
    browser.picture(directory / "web-ui-form.png")
    scene.worker.rest.delete("/connectors/orders-archive")


def _tab_to(browser: Browser, name: str, at_most: int = 60) -> list[str]:
    """Press Tab until an element of this role and name has the focus; returns what had it on the way."""
    passed: list[str] = []
    while (now := browser.focused()) != name:
        assert len(passed) < at_most, f"{name!r} is not reached: {passed}"
        passed.append(now)
        browser.press(Keys.TAB)
    return passed
