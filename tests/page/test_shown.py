"""What the page shows, of a made-up gateway: what is wrong first, in words; and nothing that is not so."""

import re
import time

import browser
import fixture
from browser import complaints, text, texts, until, value
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


def test_all_is_well_is_said_in_words(page):
    assert text(page, "#verdict") == "All is well: all 2 targets are healthy"
    assert page.title == "All is well: all 2 targets are healthy · Flowgate"
    assert texts(page, "#problems li") == []
    assert text(page, "#figures").startswith("Live flows620")
    assert texts(page, ".way .title") == ["office", "branch", "Gateway", "198.51.100.12", "198.51.100.11"]
    assert not complaints(page)


def test_a_dead_target_is_what_is_said_first_and_within_two_seconds(page, made_up):
    begun = time.monotonic()
    fixture.failover(made_up, ago_ms=400)
    until("the verdict", lambda: text(page, "#verdict") == "1 of 2 targets is down", 2)
    assert time.monotonic() - begun < 2
    problem = texts(page, "#problems li")[0]
    assert problem.startswith("✕Wrong: firewalls/198.51.100.12 is unhealthy (Request timed out): its flows are reset.since "), problem
    assert "17 flows left, 303 flows reset in the last minute" in problem
    assert problem.endswith("See to target-unhealthy. flowgate report 3")
    assert browser.plain(page.title).startswith("✕ 1 of 2 targets is down")
    until("the timeline", lambda: len(texts(page, "#events li")) == 3)
    _, first, second = texts(page, "#events .what")
    assert first.startswith("404 resets sent for flows of firewalls/198.51.100.12: their target is unhealthy")
    assert second == "firewalls/198.51.100.12 is unhealthy, it was healthy: its checks time out"
    # For whoever hears the page: once, and without the seconds that go by.
    announced = text(page, "#announce")
    assert announced.startswith("1 of 2 targets is down. firewalls/198.51.100.12 is unhealthy")
    time.sleep(2.5)
    assert text(page, "#announce") == announced
    assert page.find_element(By.CSS_SELECTOR, ".way a.unhealthy").get_attribute("aria-label").startswith("198.51.100.12, unhealthy, ")
    assert not complaints(page)


def test_a_failover_is_told_with_its_phases_and_what_became_of_the_flows(page, made_up):
    assert texts(page, "#failovers li") == ["There has been no failover yet."]
    fixture.failover(made_up, ago_ms=100)
    until("its record", lambda: "Failover 3: firewalls/198.51.100.12 was unhealthy at " in text(page, "#failovers .title"))
    assert text(page, "#failovers .title").endswith("; it goes on")
    assert text(page, "#failovers .sums") == (
        "Of 320 flows and 1 that began since: 303 reset, 0 moved, 1 ended otherwise, 17 left. 404 resets sent. "
        "301 of 303 clients that were watched came back, the first 1.811 ms after its reset.")
    assert texts(page, "#failovers dl div") == [
        "First failed check to decision401.2 ms", "Decision to the last worker0.018 ms", "Decision to first reset1.234 ms",
        "First failed check to first reset402.4 ms", "Last returned packet to first reset611.2 ms", "First reset to last reset1.200 s"]
    # The end comes last: of a record that has one nothing is asked any more.
    made_up.failovers[0]["DurationsMicroseconds"]["DecisionToRecovery"] = 125_000_000
    made_up.failovers[0]["Ended"] = {"At": {"At": fixture.moment(), "AfterDecisionMicroseconds": 3_000_000}, "Why": "recovered"}
    until("its end, though no event tells of it", lambda: text(page, "#failovers .title").endswith("; the target recovered"))
    assert "Decision to recovery2m 5s" in text(page, "#failovers")
    asked = made_up.asked.count("/api/failovers")
    made_up.failovers += [dict(made_up.failovers[0], Id=each) for each in (2, 1, 0)]
    made_up.not_recorded = 2
    made_up.tell("FailoverEnded", TargetGroup="firewalls", Target="198.51.100.12", Id=3, Cause="unhealthy", Why="recovered", Flows=320,
                 FlowsReset=303, FlowsMoved=0, FlowsLeft=17)
    until("the button", lambda: text(page, "#earlier") == "Show 1 earlier")
    assert made_up.asked.count("/api/failovers") == asked + 1, "when one ends, and not all the time"
    assert text(page, "#unsaved").startswith("2 more were not recorded")
    told = "Failover 3 of firewalls/198.51.100.12 is over, as the target recovered: of 320 flows 303 reset, 0 moved, 17 left"
    until("its line", lambda: told in texts(page, "#events .what"))
    page.find_element(By.ID, "earlier").click()
    until("all", lambda: len(texts(page, "#failovers > li")) == 4)
    assert not complaints(page)


def test_resets_that_go_on_are_one_line(page, made_up):
    of = {"TargetGroup": "firewalls", "Target": "198.51.100.12", "LoadBalancer": "inspection", "Trigger": "unhealthy"}
    for _ in range(5):
        made_up.tell("FlowsReset", **of, Count=10)
        time.sleep(0.1)
    until("the sum", lambda: [words[:2] for words in texts(page, "#events .what")] == ["50"])


def test_what_the_gateway_says_is_wrong_is_told_in_its_words_and_nothing_else_is(page, made_up):
    assert text(page, "#node").startswith("flowgate 0.1.0 · ready · configuration 7 · up ")
    # Of these the gateway says nothing, and so does the page.
    made_up.node.targets[1].update(SilentForMs=99_000)
    made_up.node.workers[1].update(HeartbeatAgeMs=4000, Flows=65_536)
    made_up.node.ports[0].update(LinkUp=False)
    since = time.time() * 1000 - 3200
    made_up.node.missing = ["worker 1 went no round for 3.2 s", "standby"]
    made_up.node.troubles = [
        fixture.trouble("worker-stuck", "Worker 1 on core 3 goes no rounds: its flows stand still", "worker 1", since_ms=since, Figures="1000 flows",
                        Command="flowgate describe-workers"),
        fixture.trouble("no-target", "other refuses new flows: spare has no target", "other", "spare"),
        fixture.trouble("taken-out", "This node was taken out of service: standby", severity="warning"),
        fixture.trouble("target-draining", "firewalls/198.51.100.11 drains", "firewalls/198.51.100.11", severity="notice", Figures="4 flows left"),
    ]
    until("the problems", lambda: len(texts(page, "#problems .what")) == 4, 6)
    assert texts(page, "#problems .what") == [f"{each['What']}." for each in made_up.node.troubles]
    assert text(page, "#verdict") == "2 things are wrong"
    assert "not ready: worker 1 went no round for 3.2 s, standby" in text(page, "#node")
    first = texts(page, "#problems .live")[0]
    assert re.fullmatch(r"since \d\d:\d\d:\d\d \([3-9]\.\d s\) · 1000 flows", first), first
    # What goes on as somebody wanted needs nothing to be done.
    assert texts(page, "#problems .todo") == ["See to worker-stuck. flowgate describe-workers", "See to no-target. ", "See to taken-out. "]
    # Not by colour alone: each says what it is, too.
    assert [words.split(":")[0] for words in texts(page, "#problems li .unseen")] == ["Wrong", "Wrong", "Look", "Note"]
    assert [link.text for link in page.find_elements(By.CSS_SELECTOR, "#problems a")] == ["firewalls/198.51.100.11 drains."]
    made_up.node.troubles = made_up.node.troubles[2:]
    until("a look", lambda: text(page, "#verdict") == "One thing needs a look")
    assert not complaints(page)


def test_rates_go_by_the_uptime_and_a_count_that_fell_is_none(page, made_up):
    def rates():
        return value(page, "return [...document.querySelectorAll('#figures div')].map((each) => each.textContent).join('|')")

    def megabits():
        found = re.search(r"([0-9.]+).Mbit/s", rates())
        return float(found[1]) if found else 0

    usual = until("the rates", megabits)
    # Forth, and back: by that clock a second takes an hour, or less than nothing.
    for clock_ms in (3_600_000, -3_600_000):
        made_up.node.clock_ms = clock_ms
        for _ in range(30):
            assert usual / 2 < megabits() < usual * 2, rates()
            time.sleep(0.1)
    made_up.node.clock_ms = 0
    # Registered anew: of what it had before nothing is known.
    for each in made_up.node.targets:
        each["Traffic"].update(BytesToTarget=0, BytesFromTarget=0)
        each["pace"] = 0
    for _ in range(30):
        assert "-" not in rates() and megabits() < usual * 2, rates()
        time.sleep(0.1)


def test_names_are_text_whatever_is_in_them(wide, made_up):
    hostile = '<img src=x onerror="document.title=1">&amp;"\'</script><svg onload=alert(1)>\n\u202e'
    made_up.node = fixture.Node(groups=[fixture.group(hostile, hostile, [fixture.target("198.51.100.11", Zone=hostile)])],
                                endpoints=[fixture.endpoint(hostile, hostile)])
    made_up.node.ports = [dict(fixture.port(hostile), LinkUp=False)]
    made_up.node.troubles = [fixture.trouble(hostile, hostile, hostile, Figures=hostile, Command=hostile)]
    made_up.node.missing = [hostile]
    made_up.tell("TargetHealthChanged", TargetGroup=hostile, Target="198.51.100.11", From="healthy", To="unhealthy",
                 Reason=hostile, Description=hostile)
    made_up.tell(hostile, Anything=hostile)
    browser.visit(wide, made_up.url)
    until("the group", lambda: hostile in texts(wide, "#targets td"))
    wide.execute_script("location.hash = arguments[0]", f"#target/{hostile}/198.51.100.11")
    assert not wide.execute_script("return document.querySelectorAll('img[src=x], script:not([src])').length")
    until("its event", lambda: any(hostile in words for words in texts(wide, "#events .what")))
    assert wide.title.endswith("Flowgate")
    assert not complaints(wide)
    wide.get("about:blank")


def test_three_hundred_targets_are_folded_and_can_be_found(wide, made_up):
    targets = [fixture.target(f"10.1.{n // 250}.{n % 250 + 1}", 40 + n % 7) for n in range(300)]
    made_up.node = fixture.Node(targets)
    for n in (7, 222):
        targets[n].update(State="unhealthy", Reason="Target.FailedHealthChecks", Description="Connection refused")
        made_up.node.troubles.append(fixture.trouble("target-unhealthy", f"{targets[n]['Address']} is unhealthy", f"firewalls/{targets[n]['Address']}"))
    browser.visit(wide, made_up.url)
    until("the verdict", lambda: text(wide, "#verdict") == "2 of 300 targets are down")
    names = texts(wide, ".way .title")
    assert len(names) <= 16 and sorted(names[3:5]) == ["10.1.0.223", "10.1.0.8"], names
    assert "289 more of firewalls" in names[-1]
    assert len(texts(wide, "#targets tbody tr")) == 50
    assert texts(wide, "#targets tbody th")[:2] == ["10.1.0.8", "10.1.0.223"], "the bad ones first"
    box = wide.find_element(By.ID, "filter")
    box.send_keys("10.1.1.5")
    until("the filter", lambda: texts(wide, "#targets tbody th") == ["10.1.1.5", "10.1.1.50"])
    box.send_keys(" nothing")
    until("no match", lambda: texts(wide, "#targets tbody td") == ["No target matches."])
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(Keys.DELETE)
    wide.find_element(By.ID, "more").click()
    until("all of them", lambda: len(texts(wide, "#targets tbody tr")) == 300)
    wide.execute_script("[...document.querySelectorAll('#targets thead button')].find((each) => each.textContent.startsWith('Flows')).click()")
    flows = [int(cells) for cells in wide.execute_script("return [...document.querySelectorAll('#targets tbody tr')].map((row) => row.children[5].textContent)")]
    assert flows == sorted(flows, reverse=True)
    assert wide.execute_script("return document.querySelector('#targets [aria-sort]').textContent").startswith("Flows")
    # Some time on the page is spent, but not all of it: a second's work in a second would be too much. The quickest of
    # some, as others have this machine's cores too.
    busy = min(value(wide, "const t = performance.now(); dispatchEvent(new Event('resize')); document.body.offsetHeight; return performance.now() - t;")
               for _ in range(5))
    assert busy < 200
    assert not complaints(wide)
    wide.get("about:blank")


def test_twelve_groups_and_forty_endpoints_are_bounded_too_and_the_bad_ones_come_first(wide, made_up):
    groups = [fixture.group(f"group-{g}", f"balancer-{g}", [fixture.target(f"10.{g}.0.{n + 1}", 5 * n + g) for n in range(5 + g)])
              for g in range(12)]
    for n in range(6):
        groups[3]["Targets"][n].update(State="unhealthy", Reason="Target.Timeout", Description="Request timed out")
    made_up.node = fixture.Node(groups=groups, endpoints=[fixture.endpoint(f"endpoint-{n}", f"balancer-{n % 12}") for n in range(40)])
    made_up.node.troubles = [fixture.trouble("target-unhealthy", "6 of 8 targets of group-3 are unhealthy", *(f"group-3/10.3.0.{n + 1}" for n in range(6)))]
    made_up.node.troubles += [fixture.trouble("target-unreachable", f"group-{n // 2}/{n} cannot be sent anything", f"group-{n // 2}/{n}") for n in range(22)]
    browser.visit(wide, made_up.url)
    until("the verdict", lambda: text(wide, "#verdict") == "6 of 126 targets are down")
    told = texts(wide, "#problems .what")
    assert len(told) == 13 and told[0] == "6 of 8 targets of group-3 are unhealthy.", told
    assert told[-1] == "And 11 matters more."
    drawn = texts(wide, ".way .title")
    assert len(drawn) <= 6 + 1 + 16 and "35 more endpoints" in drawn and drawn[7].startswith("10.3.0."), drawn
    # Out of service for an hour, and none of that in the last five minutes: it is in the lanes all the same.
    until("their lanes", lambda: len([name for name in texts(wide, "#lanes .name") if name.startswith("10.3.0.")]) == 6)
    assert not complaints(wide)
    wide.get("about:blank")


def test_one_target_and_none(wide, made_up):
    made_up.node = fixture.Node([fixture.target("198.51.100.11")])
    browser.visit(wide, made_up.url)
    assert text(wide, "#verdict") == "All is well: the one target is healthy"
    made_up.node.groups = []
    until("none", lambda: text(wide, "#verdict") == "No targets are registered yet")
    assert texts(wide, "#targets tbody td") == ["There are no targets."]
    assert not complaints(wide)
    wide.get("about:blank")


def test_charts_can_be_gone_along_and_read_as_tables(page, made_up):
    plot = page.find_element(By.CSS_SELECTOR, "#charts .plot")
    until("a line", lambda: page.execute_script("return document.querySelector('#charts .stroke').getAttribute('d')?.length > 500"))
    latest = plot.get_attribute("aria-valuetext")
    plot.send_keys(Keys.HOME)
    first = plot.get_attribute("aria-valuetext")
    assert first != latest and "flows" in first
    assert text(page, "#charts .when").startswith("at ")
    plot.send_keys(Keys.ARROW_RIGHT, Keys.PAGE_UP)
    assert plot.get_attribute("aria-valuenow") == "11"
    page.find_element(By.CSS_SELECTOR, "#charts summary").click()
    until("the table", lambda: len(texts(page, "#charts table tbody tr")) == 12)
    summary = text(page, "#charts .chart:last-child .unseen")
    assert summary.startswith("Resets sent, the last 5 minutes: 1,155 in all, most 140 resets at "), summary
    page.find_element(By.CSS_SELECTOR, '#span input[value="coarse"]').click()
    until("the hour", lambda: "span=coarse" in "".join(made_up.asked))
    until("the hour is drawn", lambda: "the last hour" in text(page, "#charts .chart:last-child .unseen"))


def test_the_details_of_a_target_open_by_its_address_close_by_a_key_and_give_the_focus_back(page, made_up):
    fixture.failover(made_up)
    link = until("its row", lambda: page.find_element(By.LINK_TEXT, "198.51.100.12"))
    link.send_keys(Keys.ENTER)
    until("the details", lambda: text(page, "#detail-title") == "firewalls/198.51.100.12")
    assert page.current_url.endswith("#target/firewalls/198.51.100.12")
    until("why", lambda: "its checks time out" in text(page, "#detail .state"))
    facts = text(page, "#detail .facts")
    for words in ("200.4 ms: Request timed out", "450 failures in a row", "Flows reset303; 303 in the last minute", "404: unhealthy", "a death is seen within 550 ms at worst", "TCP flows are reset when it is unhealthy"):
        assert words in facts, facts
    until("what happened to it", lambda: len(texts(page, "#detail .events li")) == 7)
    assert "192.0.2.10:40003" in text(page, "#detail")
    assert page.execute_script("return document.activeElement.closest('#detail') !== null")
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    until("closed", lambda: not page.execute_script("return document.querySelector('#detail').open"))
    # The browser tells the page that it is closed a moment later.
    until("the address without it", lambda: "#" not in page.current_url)
    until("the focus to be back", lambda: page.execute_script("return document.activeElement.textContent") == "198.51.100.12")
    # An address that somebody sent.
    browser.visit(page, made_up.url + "#target/firewalls/198.51.100.11")
    until("the other's details", lambda: text(page, "#detail-title") == "firewalls/198.51.100.11")
    page.get(made_up.url + "#target/firewalls/198.51.100.99")
    until("no such target", lambda: "There is no such target now" in text(page, "#detail .state"))
    page.get(made_up.url + "#target/%E0%A4%A/1")
    until("no details of no target", lambda: not page.execute_script("return document.querySelector('#detail').open"))
    assert not complaints(page)
