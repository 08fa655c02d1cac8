"""A real browser for the tests, driven over its debugging pipe without further packages."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from base64 import b64decode
from pathlib import Path

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
PATIENCE = 120.0  # seconds for one answer, on a machine busy with other things


class Chromium:
    """One headless page; every request and every message of its console is kept."""

    def __init__(self, width: int = 1280, height: int = 900, mobile: bool = False):
        assert BROWSER is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        quiet = ["--no-first-run", "--disable-background-networking", "--disable-sync"]
        profile = f"--user-data-dir={self._profile.name}"
        # The browser speaks on descriptors 3 and 4.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", str(BROWSER), *options, *quiet, profile, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._buffer, self._session = 0, b"", None
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(self, *_) -> None:
        self._session = None
        self.call("Browser.close")
        os.close(self._write)
        os.close(self._read)
        self._process.wait(PATIENCE)
        self._profile.cleanup()

    def call(self, method: str, **parameters) -> dict:
        """One command of the DevTools protocol and its answer."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict:
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser has gone"
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, page: Path) -> None:
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait_for("document.readyState === 'complete'")

    def run(self, script: str):
        """The value of a JavaScript expression in the page."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        until = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < until, f"never true: {condition}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def point_at(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path, height: float | None = None) -> None:
        """The whole page, or its top."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"]}
        shot = self.call(
            "Page.captureScreenshot", clip={**clip, "scale": 1}, captureBeyondViewport=True
        )
        path.write_bytes(b64decode(shot["data"]))

    @property
    def requests(self) -> list[str]:
        """Addresses asked for, beyond data inside the page."""
        sent = (e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent")
        urls = [each["request"]["url"] for each in sent]
        return [url for url in urls if not url.startswith(("data:", "about:"))]

    @property
    def complaints(self) -> list[dict]:
        """Errors, warnings and exceptions."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [e for e in self.events if e.get("method") in kinds]
