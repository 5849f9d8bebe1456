"""A made-up gateway and a browser for every test that asks for them."""

import contextlib

import browser
import fixture
import pytest


@pytest.fixture
def made_up():
    served = fixture.Fixture()
    yield served
    with contextlib.suppress(OSError):
        served.stop()


@pytest.fixture(scope="module")
def wide():
    """A desk's screen, light."""
    with browser.open_browser(1280, 900) as driver:
        yield driver


@pytest.fixture(scope="module")
def phone():
    with browser.open_browser(360, 780) as driver:
        yield driver


@pytest.fixture
def page(wide, made_up):
    """The page of the made-up gateway, live."""
    browser.visit(wide, made_up.url)
    yield wide
    wide.get("about:blank")
