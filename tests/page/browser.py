"""Chromium without a screen, as the tests use it."""

import base64
import contextlib
import json
import os
import shutil
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service


@contextlib.contextmanager
def open_browser(width=1280, height=900, theme="light", calm=False):
    """A browser of this size, on a system that is light or dark, and wants no motion if `calm`."""
    home = tempfile.mkdtemp(prefix="flowgate-page-")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync", f"--user-data-dir={home}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver"), env={**os.environ, "HOME": home}))
    try:
        # A window is never so narrow as a phone is.
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}]})
        driver.set_page_load_timeout(20)
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(home, ignore_errors=True)


def complaints(driver):
    """What the browser wrote into its console, warnings and worse, since the last call."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]


def whole_page(driver, file):
    """A picture of all of the page, however long it is."""
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
    with open(file, "wb") as picture:
        picture.write(base64.b64decode(shot["data"]))


def until(what, condition, patience=20):
    """Waits until `condition` gives something, and gives that."""
    end = time.monotonic() + patience
    while True:
        try:
            found = condition()
        except Exception as error:  # noqa: BLE001 - an element may go while it is looked at
            found, last = None, error
        else:
            last = None
        if found:
            return found
        assert time.monotonic() < end, f"waited {patience} s for {what}{f': {last}' if last else ''}"
        time.sleep(0.05)


def plain(words):
    """Words with spaces for all the spaces that do not break."""
    return words.replace("\u00a0", " ").replace("\u202f", " ")


def text(driver, selector):
    """The text of an element, as JavaScript has it."""
    return plain(driver.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector))


def texts(driver, selector):
    """The texts of all elements that a selector finds."""
    found = driver.execute_script("return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)", selector)
    return [plain(words) for words in found]


def value(driver, script, *arguments):
    return json.loads(driver.execute_script(f"return JSON.stringify((() => {{ {script} }})())", *arguments))


def visit(driver, url):
    """Opens the page, waits until it is live and every part has something to show, and forgets earlier complaints."""
    driver.get("about:blank")
    complaints(driver)
    driver.get(url)
    until("the page to be live", lambda: text(driver, "#link-words") == "Live")
    until("the first reading", lambda: text(driver, "#verdict") != "Reading the gateway…")
    until("the records of failovers", lambda: texts(driver, "#failovers li"))
