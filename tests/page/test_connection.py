"""The connection: what is told when it is lost, and how the page comes back."""

import time

import browser
import fixture
from browser import text, texts, until


def streams(served):
    return sum(path.startswith("/events") for path in served.asked)


def test_a_lost_connection_is_told_and_what_was_missed_is_there_when_it_is_back(page, made_up):
    port, node = made_up.port, made_up.node
    made_up.tell("ConfigChanged", Generation=8)
    until("the event", lambda: "generation 8" in text(page, "#events"))
    made_up.stop()
    until("the loss", lambda: text(page, "#lost").startswith("The gateway does not answer since "))
    assert text(page, "#link-words") == "Connection lost"
    assert page.execute_script("return document.querySelector('#lost').getAttribute('role')") == "alert"
    until("the age", lambda: "What is shown is " in text(page, "#lost"))
    # The same daemon, which was out of reach, and went on.
    back = fixture.Fixture(node, port)
    try:
        back.entries, back.events, back.told = made_up.entries, made_up.events, made_up.told
        back.tell("ConfigChanged", Generation=9)
        until("it is back", lambda: text(page, "#link-words") == "Live")
        until("what was missed", lambda: "generation 9" in text(page, "#events"))
        assert page.execute_script("return document.querySelector('#lost').hidden")
        back.tell("ConfigChanged", Generation=10)
        until("what is new", lambda: "generation 10" in text(page, "#events"))
    finally:
        back.stop()


def test_a_gateway_that_was_started_anew_is_shown_with_its_own_past(page, made_up):
    made_up.tell("ConfigChanged", Generation=8)
    until("the event", lambda: "generation 8" in text(page, "#events"))
    made_up.stop()
    back = fixture.Fixture(port=made_up.port)
    try:
        back.boot = 2
        back.node.uptime = 1000
        back.tell("ConfigChanged", Generation=1)
        until("it is back", lambda: text(page, "#link-words") == "Live" and "generation 1" in text(page, "#events"))
        assert "generation 8" not in text(page, "#events")
        # The stream may be back before the next overview: the loss was too short to be one then.
        until("its own time, in seconds", lambda: text(page, "#node").split(" · ")[-1].endswith(" s"))
        back.tell("ConfigChanged", Generation=2)
        until("what is new", lambda: "generation 2" in text(page, "#events"))
    finally:
        back.stop()


def test_a_browser_whose_clock_is_wrong_shows_the_hour_all_the_same(wide, made_up):
    made_up.tell("ConfigChanged", 5000, Generation=8)
    made_up.forgotten = 12
    # Half a day ahead.
    wide.execute_cdp_cmd("Page.enable", {})
    script = wide.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "const now = Date.now.bind(Date); Date.now = () => now() + 43_200_000;"})
    try:
        browser.visit(wide, made_up.url)
        made_up.tell("ConfigChanged", Generation=9)
        until("both", lambda: all(f"generation {n}" in text(wide, "#events") for n in (8, 9)))
        assert text(wide, "#forgotten") == "12 more of the last hour were too many to keep."
    finally:
        wide.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
        wide.get("about:blank")


def test_a_page_that_gets_no_stream_says_so_and_shows_what_it_can(wide, made_up):
    made_up.streams_refused = True
    wide.get(made_up.url)
    until("it is told", lambda: text(wide, "#link-words") == "Without events")
    assert "no stream of events" in text(wide, "#lost")
    fixture.failover(made_up, ago_ms=100)
    until("the dead target", lambda: text(wide, "#verdict") == "1 of 2 targets is down")
    until("the events, later", lambda: "404" in text(wide, "#events"))
    made_up.streams_refused = False
    until("a stream", lambda: text(wide, "#link-words") == "Live")
    wide.get("about:blank")


def test_a_page_that_nobody_sees_asks_for_nothing(wide, made_up):
    browser.visit(wide, made_up.url)
    until("its stream", lambda: len(made_up.streams) == 1)
    here = wide.current_window_handle
    wide.switch_to.new_window("tab")
    until("it is hidden", lambda: len(made_up.streams) == 0)
    time.sleep(0.5)
    asked = len(made_up.asked)
    time.sleep(2.5)
    # What was under way may still come.
    assert len(made_up.asked) - asked <= 1
    wide.close()
    wide.switch_to.window(here)
    until("it is back", lambda: text(wide, "#link-words") == "Live" and len(made_up.streams) == 1)
    wide.get("about:blank")


def test_ten_thousand_events_leave_the_page_alive_and_bounded(page, made_up):
    for n in range(10_000):
        made_up.tell("FlowsReset", TargetGroup="firewalls", Target=f"10.0.{n % 40}.{n % 50 + 1}", LoadBalancer="inspection",
                     Trigger="unhealthy", Count=1)
    until("the last of them", lambda: len(made_up.streams) == 1 and made_up.streams[0].empty(), 20)
    begun = time.monotonic()
    fixture.failover(made_up, ago_ms=50)
    until("the dead target", lambda: text(page, "#verdict") == "1 of 2 targets is down")
    until("its line", lambda: any(words.startswith("404 resets") for words in texts(page, "#events .what")))
    # A page that draws each of them by itself takes a minute; one that draws them together takes less than a second
    # where it has a core.
    assert time.monotonic() - begun < 10
    assert page.execute_script("return document.querySelectorAll('#events li').length") <= 40
