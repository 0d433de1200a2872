"""A window of Debian's Chromium, driven by Playwright, that remembers what a page asked for and complained about."""

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@contextmanager
def chromium():
    """Start the browser; skip the test where there is none."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it to see the pages in a real browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Window:
    """One page with a storage of its own; ``open`` collects its complaints and requests."""

    def __init__(self, browser):
        self._browser, self._options = browser, None
        self.page, self.complaints, self.requests = None, [], []

    def _new_page(self, **options):
        self.close()
        self._options = options
        self.page = self._browser.new_context(**options).new_page()
        self.page.set_default_timeout(300_000)  # a busy machine is no wrong page
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def close(self):
        if self.page is not None:
            self.page.context.close()

    def open(self, path, width=1200, height=900, *, scheme="light", media=None, script=True):
        """Load a file into a window of this size; return what it asked for, itself left out."""
        options = {"is_mobile": width < 600, "java_script_enabled": script}
        if options != self._options:
            self._new_page(**options)
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme=scheme, media=media)
        self.complaints.clear()
        self.requests.clear()
        self.page.goto(path.as_uri())
        return self.foreign_requests(path)

    def foreign_requests(self, path):
        """Return the addresses asked for so far, the page itself and what it carries inside left out."""
        return [address for address in self.requests if address != path.as_uri() and not address.startswith("data:")]

    def run(self, expression):
        """Return the value of a JavaScript expression, or of the promise that it gives."""
        return self.page.evaluate(expression)

    def click(self, selector):
        """Click on the first element that matches."""
        self.page.locator(selector).first.click()

    def press(self, key):
        """Press a key such as "j", "Shift+1" or "Enter", wherever the focus is."""
        self.page.keyboard.press(key)

    def type(self, text):
        """Type a text where the focus is."""
        self.page.keyboard.insert_text(text)
