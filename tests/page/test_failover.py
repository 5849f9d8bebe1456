"""The page over a real gateway under load, while an appliance dies and comes back."""

import os
import time

import browser
import laboratory
import pytest
from browser import complaints, text, texts, until
from selenium.webdriver.common.by import By

DEAD = 0


@pytest.fixture(scope="module")
def lab():
    with laboratory.Laboratory() as lab:
        yield lab


@pytest.fixture(scope="module")
def live(lab):
    with browser.open_browser(1280, 900) as driver:
        browser.visit(driver, laboratory.URL)
        yield driver


def picture(driver, name):
    """A picture for the documentation, if somebody wants them anew."""
    if folder := os.environ.get("FLOWGATE_PICTURES"):
        browser.whole_page(driver, f"{folder}/{name}.png")


def test_a_gateway_at_work_is_shown_as_it_is(live, lab):
    until("the verdict", lambda: text(live, "#verdict") == "All is well: all 2 targets are healthy")
    shown = texts(live, "#targets tbody tr")
    for target in lab.targets():
        row = next(words for words in shown if target["Address"] in words)
        assert "healthy" in row
    until("the flows that the socket tells", lambda: abs(int(text(live, "#figures dd")) - lab.overview()["Totals"]["Flows"]) <= 2)
    until("traffic", lambda: live.execute_script("return document.querySelectorAll('.way .run.slow, .way .run.quick').length") >= 3)
    until("charts", lambda: live.execute_script("return [...document.querySelectorAll('#charts .stroke')].filter((each) => each.getAttribute('d')?.length > 20).length") >= 3)
    assert not complaints(live)


def test_a_dead_appliance_its_resets_and_its_timeline_are_shown_within_two_seconds(live, lab):
    address = laboratory.APPLIANCES[DEAD]
    before = next(target for target in lab.targets() if target["Address"] == address)
    killed = lab.kill_appliance(DEAD)
    until("the verdict", lambda: text(live, "#verdict") == "1 of 2 targets is down")
    told_after = time.time() - killed
    assert f"firewalls/{address} is unhealthy (" in text(live, "#problems")
    settings = lab.overview()["TargetGroups"][0]
    detection = settings["DetectionTimeMs"] / 1000 + 0.4
    assert told_after < detection + 2, f"{told_after:.2f} s after the death"
    until("the resets", lambda: any(f"flows of firewalls/{address}" in words for words in texts(live, "#events .resets .what")))
    assert any(f"firewalls/{address} is unhealthy, it was healthy" in words for words in texts(live, "#events .health .what"))
    # The clients come back through the other one, and nobody is reset any more.
    until("the resets to be over", lambda: lab.targets()[DEAD]["Flows"] == 0, 20)

    def counted():
        dead = next(target for target in lab.targets() if target["Address"] == address)
        return dead, sum(dead["Traffic"]["Resets"].values())

    def row():
        cells = live.execute_script("const row = [...document.querySelectorAll('#targets tbody tr')].find((row) => row.textContent.includes(arguments[0])); return [row.children[10].textContent, row.children[11].textContent]", address)
        return [int(words) for words in cells]

    def in_the_timeline():
        lines = [words for words in texts(live, "#events .resets .what") if f"flows of firewalls/{address}" in words]
        return sum(int(words.split()[0]) for words in lines)

    # The other end of a flow that was reset may still send, and is told then; the page asks once in a second.
    def agree():
        dead, resets = counted()
        shown = row() == [dead["Traffic"]["ResetFlows"], resets] and in_the_timeline() == resets
        reset = dead["ResetFlowsLastMinute"]
        last_minute = f"{reset} flow{'' if reset == 1 else 's'} reset in the last minute" in text(live, "#problems")
        in_the_record = f"{resets} resets sent." in text(live, "#failovers .sums")
        return (dead, resets) if shown and last_minute and in_the_record else None

    dead, resets = until("table, timeline, problem, record and the socket to agree", agree)
    assert resets > dead["Traffic"]["ResetFlows"] >= before["Flows"] > 0, "both ends of flows are told"
    assert live.execute_script("return document.querySelector('.way a.unhealthy .title').textContent") == address
    assert live.execute_script("return document.querySelectorAll('#lanes .part.unhealthy').length") == 1
    record = lab.flowgate("report", "--last")["Failovers"][0]
    until("the record", lambda: f"Failover {record['Id']}: firewalls/{address} was unhealthy" in text(live, "#failovers"))
    flows = record["Flows"]["AtDecision"]
    assert f"Of {flows} flow{'' if flows == 1 else 's'}" in text(live, "#failovers .sums")
    took = record["DurationsMicroseconds"]["FirstFailureToDecision"]
    assert f"First failed check to decision{took // 1000}.{took % 1000 // 100} ms" in texts(live, "#failovers dl div")
    picture(live, "failover")
    assert not complaints(live)


def test_the_details_of_the_dead_appliance_say_why_and_whom_it_hit(live, lab):
    address = laboratory.APPLIANCES[DEAD]
    live.find_element(By.CSS_SELECTOR, "#problems a").click()
    until("the details", lambda: text(live, "#detail-title") == f"firewalls/{address}")
    until("why", lambda: text(live, "#detail .state").strip().startswith("✕ unhealthy since "))
    until("who was hit", lambda: "Reset sent to 192.0.2." in text(live, "#detail"))
    until("its charts", lambda: len(live.execute_script("return document.querySelector('#detail .stroke')?.getAttribute('d') ?? ''")) > 20)
    assert "in a row" in text(live, "#detail .facts")
    picture(live, "details")
    live.find_element(By.CSS_SELECTOR, "#detail button").click()
    assert not complaints(live)


def test_it_is_over_when_the_appliance_is_back(live, lab):
    lab.revive_appliance(DEAD)
    until("the verdict", lambda: text(live, "#verdict") == "All is well: all 2 targets are healthy")
    address = laboratory.APPLIANCES[DEAD]
    until("its line", lambda: any(f"firewalls/{address} is healthy, it was unhealthy" in words for words in texts(live, "#events .what")))
    # It ends when the target has stayed healthy for some seconds.
    until("the record's end", lambda: "the target recovered" in text(live, "#failovers .title"), 30)
    assert not complaints(live)


def test_a_drain_is_told_with_what_is_left_and_by_when(live, lab):
    address = laboratory.APPLIANCES[DEAD]
    lab.flowgate("deregister-targets", "--target-group", "firewalls", "--targets", f"Id={address}", "--yes")
    until("the drain", lambda: f"firewalls/{address} drains." in text(live, "#problems"))
    until("its line", lambda: any(f"firewalls/{address} drains, with" in words for words in texts(live, "#events .drains .what")))
    assert not complaints(live)
