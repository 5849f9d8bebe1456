"""Takes pictures of the page over a made-up gateway, to be looked at: `look.py FOLDER [ADDRESS]`; of a real one at ADDRESS."""

import sys
import time

import browser
import fixture


def main(folder, address=None):
    made_up = None
    if address is None:
        made_up = fixture.Fixture()
        made_up.tell("ConfigChanged", 200_000, Generation=7)
        fixture.failover(made_up)
        address = made_up.url
    for theme in ("light", "dark"):
        for width, height in ((1280, 1500), (360, 780)):
            with browser.open_browser(width, height, theme) as driver:
                driver.get(address)
                time.sleep(4)
                browser.whole_page(driver, f"{folder}/{theme}-{width}.png")
                driver.get(address + "#target/firewalls/198.51.100.12")
                time.sleep(2)
                driver.save_screenshot(f"{folder}/{theme}-{width}-detail.png")
                print(*browser.complaints(driver), sep="\n")


main(*sys.argv[1:])
