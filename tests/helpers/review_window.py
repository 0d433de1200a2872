"""Short ways to ask the review page."""

import time


def text(browser, selector):
    return browser.page.locator(selector).first.text_content()


def name(browser):
    """Id of the example on show."""
    return text(browser, "#example-name")


def choices(browser):
    """Label → choice of the example on show, in order."""
    pairs = browser.run(
        "Array.from(document.querySelectorAll('.suggestion:not([hidden])'),"
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
    event = "input" if name in ("search", "from", "to") else "change"
    control.evaluate("(e, value) => { e.value = value; }", str(value))
    control.dispatch_event(event)


def wait_for(check, seconds=300):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
