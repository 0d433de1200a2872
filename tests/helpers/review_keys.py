"""Keys with Shift and letters, which the shared driver does not know, and short ways to ask the page."""

import json
import time


def press(browser, key):
    """Press "j", "1", "Shift+1" or a named key."""
    shift, _, name = key.rpartition("+")
    if name.isdigit():
        # With Shift the sign is another one, as on a real keyboard.
        typed, code = (")!@#$%^&*("[int(name)] if shift else name), f"Digit{name}"
    elif len(name) == 1:
        typed, code = name, f"Key{name.upper()}" if name.isalpha() else "Slash"
    else:
        typed, code = name, name
    text = {"text": typed} if len(typed) == 1 else {"text": "\r"} if name == "Enter" else {}
    common = {"key": typed, "code": code, "modifiers": 8 if shift else 0}
    common |= {"windowsVirtualKeyCode": 27} if name == "Escape" else {}
    browser.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common, **text)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **common)


def text(browser, selector):
    return browser.run(f"document.querySelector({json.dumps(selector)}).textContent")


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
    event = "input" if name in ("search", "from", "to") else "change"
    browser.run(
        f"(e => {{ e.value = {json.dumps(str(value))}; e.dispatchEvent(new Event('{event}')); }})"
        f"(document.getElementById('{name}'))"
    )


def wait_for(check, seconds=10):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def reopen(browser, path):
    """Load the page again, once what was stored has arrived everywhere; return what it asked for.

    The browser may give the new page a process of its own, which can start before the old one's last entry is through.
    """
    entries = "JSON.stringify(Object.entries(localStorage).sort())"
    kept = browser.run(entries)
    wait_for(lambda: browser.open(path) == [] and browser.run(entries) == kept)
    return browser.open(path)


def forget(browser, path):
    """Load the page without memory; return what it asked for."""
    browser.open(path)
    browser.run("localStorage.clear()")
    return reopen(browser, path)
