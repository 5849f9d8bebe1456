"""For whoever cannot see the page, or not well, or has no mouse, or a phone."""

import importlib.util
import pathlib
import re

import browser
import fixture
import pytest
from browser import complaints, text, until, value
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

# The package is for another browser driver, and is there for this file of it.
AXE = pathlib.Path(importlib.util.find_spec("axe_playwright_python").origin).with_name("axe.min.js").read_text()


def violations(driver):
    """What axe-core finds, each as a line."""
    driver.set_script_timeout(30)
    driver.execute_script(AXE)
    found = driver.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then((result) => done(result.violations), (error) => done(String(error)))")
    return [f"{each['id']}: {each['help']}: {node['html'][:120]} {node.get('failureSummary', '')}" for each in found for node in each["nodes"]]


@pytest.fixture(params=[("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)], ids=lambda each: f"{each[0]}-{each[1]}")
def screen(request):
    theme, width = request.param
    with browser.open_browser(width, 900, theme, calm=True) as driver:
        yield driver


def test_axe_finds_nothing(screen, made_up):
    fixture.failover(made_up)
    made_up.tell("ConfigChanged", Generation=8)
    browser.visit(screen, made_up.url)
    until("the charts", lambda: screen.execute_script("return document.querySelector('#charts .stroke')?.getAttribute('d')"))
    assert violations(screen) == []
    screen.execute_script("location.hash = '#target/firewalls/198.51.100.12'")
    until("the details", lambda: "its checks time out" in text(screen, "#detail .state"))
    until("its charts", lambda: screen.execute_script("return document.querySelector('#detail .stroke')?.getAttribute('d')"))
    assert violations(screen) == []
    made_up.stop()
    until("the loss", lambda: text(screen, "#link-words") == "Connection lost")
    screen.execute_script("document.querySelector('#detail').close()")
    assert violations(screen) == []


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


STATES = ("healthy", "unhealthy", "draining", "initial", "unused")


def test_text_and_marks_stand_out_in_both_themes(wide, made_up):
    browser.visit(wide, made_up.url)
    for theme in ("light", "dark"):
        colours = value(wide, """
            document.documentElement.dataset.theme = arguments_[0];
            const probe = document.createElement("i");
            document.body.append(probe);
            const names = ["paper", "card", "ink", "soft", "line", "mark", "link", "focus", "healthy", "unhealthy", "draining", "initial",
                           "unused", "bad-paper", "warn-paper", "good-paper"];
            const found = {};
            for (const name of names) { probe.style.color = `var(--${name})`; found[name] = getComputedStyle(probe).color; }
            probe.remove();
            return found;""".replace("arguments_[0]", repr(theme)))
        for paper in ("paper", "card", "bad-paper", "warn-paper", "good-paper"):
            for ink in ("ink", "soft", "link"):
                assert contrast(colours[ink], colours[paper]) >= 4.5, (theme, ink, paper)
        for state in STATES:
            # As a mark, as text, and as what a sign stands on.
            assert contrast(colours[state], colours["card"]) >= 4.5, (theme, state)
        for mark in ("mark", "focus"):
            assert contrast(colours[mark], colours["card"]) >= 3, (theme, mark)
    wide.get("about:blank")


def test_every_state_has_a_sign_and_a_word_of_its_own(page, made_up):
    made_up.node.groups[0]["Targets"] = [fixture.target(f"10.0.0.{n + 1}", state=state) for n, state in enumerate(STATES)]
    until("all states", lambda: page.execute_script("return document.querySelectorAll('#targets .sign').length") == len(STATES))
    cells = page.execute_script("return [...document.querySelectorAll('#targets tbody tr')].map((row) => row.firstElementChild.textContent)")
    signs = [cell[0] for cell in cells]
    assert len(set(signs)) == len(STATES), signs
    assert sorted(cell[1:].strip() for cell in cells) == sorted(STATES)
    boxes = page.execute_script("return [...document.querySelectorAll('.way a')].map((box) => box.textContent)")
    for state in STATES:
        assert any(state in box for box in boxes), (state, boxes)


def test_a_phone_needs_no_scrolling_to_the_side(phone, made_up):
    made_up.node.groups[0]["Name"] = "a-very-long-target-group-name-32"
    fixture.failover(made_up)
    browser.visit(phone, made_up.url)
    until("the charts", lambda: phone.execute_script("return document.querySelector('#charts .stroke')?.getAttribute('d')"))
    for hash in ("", "#target/a-very-long-target-group-name-32/198.51.100.12"):
        phone.execute_script("location.hash = arguments[0]", hash)
        until("it is open", lambda: phone.execute_script("return document.querySelector('#detail').open") == bool(hash))
        wide = phone.execute_script("""
            const seen = (each) => !each.closest('.wide') && !each.closest('.unseen') && each.getBoundingClientRect().width > 0;
            return [document.documentElement.scrollWidth, document.querySelector('#detail').scrollWidth - document.querySelector('#detail').clientWidth,
                    [...document.querySelectorAll('body *')].filter((each) => seen(each) && each.getBoundingClientRect().right > 361).map((each) => each.outerHTML.slice(0, 100))]""")
        assert wide == [360, 0, []], wide
    small = phone.execute_script("""
        return [...document.querySelectorAll('button, .choice label, input[type=search]')].filter((each) => each.offsetHeight > 0 && each.offsetHeight < 24).map((each) => each.outerHTML)""")
    assert small == [], "a finger needs 24 pixels"
    assert not complaints(phone)
    phone.get("about:blank")


def test_the_keyboard_reaches_everything_in_the_order_in_which_it_is_read(page, made_up):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    reached = []
    for _ in range(60):
        found = page.execute_script("const now = document.activeElement; return now === document.body ? null : [now.id || now.getAttribute('aria-label') || now.textContent.trim(), now.getBoundingClientRect().top + scrollY]")
        if found is None:
            break
        reached.append(found)
        page.switch_to.active_element.send_keys(Keys.TAB)
    names = [browser.plain(name) for name, _ in reached]
    assert names[0] == "Skip to what is happening now" and names[1] == "theme", names
    for wanted in ("198.51.100.12, healthy, 320 flows", "Live flows, by time", "As a table: Live flows", "filter", "198.51.100.11"):
        assert any(name.startswith(wanted) for name in names), (wanted, names)
    tops = [round(top) for _, top in reached[2:]]
    falls = [(a, b) for a, b in zip(tops, tops[1:]) if b < a - 250]
    assert falls == [], "the focus does not jump up the page"


def test_the_theme_is_the_systems_until_somebody_chooses_and_is_remembered(made_up):
    with browser.open_browser(900, 700, "dark") as driver:
        browser.visit(driver, made_up.url)
        paper = lambda: luminance(driver.execute_script("return getComputedStyle(document.documentElement).backgroundColor"))
        assert paper() < 0.1
        button = driver.find_element(By.ID, "theme")
        assert button.text == "Theme: auto"
        button.click()
        assert button.text == "Theme: light" and paper() > 0.7
        driver.refresh()
        until("it is remembered", lambda: driver.find_element(By.ID, "theme").text == "Theme: light")
        assert paper() > 0.7
        assert not complaints(driver)


def test_who_wants_no_motion_has_none(made_up):
    running = "return document.getAnimations().filter((each) => each.playState === 'running').length"
    for calm in (False, True):
        with browser.open_browser(900, 700, calm=calm) as driver:
            browser.visit(driver, made_up.url)
            until("traffic", lambda: driver.execute_script("return document.querySelectorAll('.run.quick, .run.slow').length") > 0)
            assert (driver.execute_script(running) == 0) == calm
