"""Chromium driven over the DevTools protocol through a pipe: real clicks and keys, no library, no port.

The browser reads commands from file descriptor 3 and writes answers and events to 4, each ended by a zero byte.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
# Puts the pipes where the browser looks for them, by way of numbers that cannot be in the way, and becomes the browser.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_KEYS = {
    "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Space": {"key": " ", "code": "Space", "windowsVirtualKeyCode": 32, "text": " "},
    "ArrowRight": {"key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39},
    "ArrowDown": {"key": "ArrowDown", "code": "ArrowDown", "windowsVirtualKeyCode": 40},
}


class Browser:
    """One browser with one page; ``open`` starts afresh and collects complaints and requests."""

    def __init__(self, profile):
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"]
        flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, str(commands), str(answers), CHROMIUM, *flags],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._buffer, self._number, self._session = b"", 0, None
        self.complaints, self.requests, self._loaded = [], [], False
        try:
            self._attach()
        except BaseException:
            self._stop()
            raise

    def _attach(self):
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(10)
        finally:
            self._stop()

    def _stop(self):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method, **parameters):
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._read(lambda answer: answer.get("id") == self._number)

    def _read(self, wanted, seconds=30):
        """Take in messages until the wanted answer is there."""
        deadline = time.monotonic() + seconds
        while True:
            while b"\0" in self._buffer:
                raw, _, self._buffer = self._buffer.partition(b"\0")
                answer = json.loads(raw)
                self._note(answer.get("method"), answer.get("params", {}))
                if wanted(answer):
                    assert "error" not in answer, answer["error"]
                    return answer.get("result")
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            part = os.read(self._in, 1 << 20) if ready else b""
            assert part, f"the browser was silent for {seconds} s" if not ready else "the browser has gone"
            self._buffer += part

    def _note(self, event, content):
        if event == "Runtime.exceptionThrown":
            self.complaints.append(content["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(f"{content['type']}: {content['args']}")
        elif event == "Log.entryAdded":
            self.complaints.append(content["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(content["request"]["url"])
        elif event == "Page.loadEventFired":
            self._loaded = True

    def open(self, path, width=1200, height=900, *, scheme="light", media="", script=True):
        """Load a file into a window of this size; return what it asked for, itself left out."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=scheme)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.complaints, self.requests, self._loaded = [], [], False
        self.call("Page.navigate", url=path.as_uri())
        if not self._loaded:
            self._read(lambda answer: answer.get("method") == "Page.loadEventFired")
        return self.foreign_requests(path)

    def foreign_requests(self, path):
        """Return the addresses asked for so far, the page itself and what it carries inside left out."""
        return [address for address in self.requests if address != path.as_uri() and not address.startswith("data:")]

    def run(self, expression):
        """Return the value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def click(self, selector):
        """Click with the mouse on the middle of the first element that matches."""
        place = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', inline: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def press(self, key):
        """Press and release a key, wherever the focus is."""
        self.call("Input.dispatchKeyEvent", type="keyDown" if "text" in _KEYS[key] else "rawKeyDown", **_KEYS[key])
        self.call("Input.dispatchKeyEvent", type="keyUp", **_KEYS[key])

    def type(self, text):
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def picture(self, *, whole=False):
        """Return a screenshot as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
