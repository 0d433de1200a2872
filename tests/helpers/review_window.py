"""Short ways to ask the review page."""

import re
import time


def text(browser, selector):
    return browser.page.locator(selector).first.text_content()


def name(browser):
    """Id of the row on show."""
    return text(browser, "#row-name")


def progress(browser):
    """How many rows are decided, and how many of these complete."""
    decided, complete = re.match(
        r"([\d,]+) of [\d,]+ decided, ([\d,]+) complete", text(browser, "#progress-text")
    ).groups()
    return int(decided.replace(",", "")), int(complete.replace(",", ""))


def given(browser):
    """Given tag of the row on show → choice."""
    pair = browser.run(
        "[document.querySelector('.suggestion.given:not([hidden])')].map("
        "row => row && [row.querySelector('.name').textContent, row.dataset.choice])[0]"
    )
    return tuple(pair) if pair else None


def choices(browser):
    """Label → choice of the row on show, in order; without the given tag."""
    pairs = browser.run(
        "Array.from(document.querySelectorAll('.suggestion:not([hidden], .given)'),"
        " row => [row.querySelector('.name').textContent, row.dataset.choice])"
    )
    return dict(pairs)


def listed(browser):
    """Ids of the rows in sight, in order."""
    return browser.run(
        "Array.from(document.querySelectorAll('.row:not([hidden])'))"
        ".sort((a, b) => a.ariaPosInSet - b.ariaPosInSet).map(row => row.querySelector('.row-name').textContent)"
    )


def choose(browser, name, value):
    """Set a filter as its control would."""
    control = browser.page.locator(f"#{name}")
    event = "input" if name in ("search", "from") else "change"
    control.evaluate("(e, value) => { e.value = value; }", str(value))
    control.dispatch_event(event)


def check_label(browser, label):
    """Choose the label to check."""
    options = browser.page.locator("#label option").all_text_contents()
    (place,) = [number for number, option in enumerate(options) if option.startswith(f"{label} (")]
    choose(browser, "label", browser.page.locator("#label option").nth(place).get_attribute("value"))


def save(browser, folder, what="save"):
    """Save decisions (or "save-complete": complete rows) with the page's button; return the file."""
    browser.press("s")
    with browser.page.expect_download() as download:
        browser.click(f"#{what}")
    saved = folder / download.value.suggested_filename
    download.value.save_as(saved)
    return saved


def wait_for(check, seconds=300):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
