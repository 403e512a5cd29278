"""A headless Chromium for the tests, over the pipe of its DevTools protocol. Needs nothing but the browser itself."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"),
    *("--hide-scrollbars", "--force-color-profile=srgb"),
)
TIMEOUT = 60.0  # seconds for an answer of the browser


def executable() -> str | None:
    """Where a Chromium is, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """A browser with one tab. Messages are JSON and end in a zero byte; the browser reads file 3 and writes file 4."""

    def __init__(self, path: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="chatfmt-browser-")
        child_reads, self.to_child = pipe()
        self.from_child, child_writes = pipe()

        def connect() -> None:
            os.dup2(child_reads, 3)
            os.dup2(child_writes, 4)

        self.process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={self.folder}/profile", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=connect, pass_fds=(3, 4),
        )  # fmt: skip
        os.close(child_reads)
        os.close(child_writes)
        self.received = b""
        self.events: list[dict[str, Any]] = []
        self.number = self.pages = 0
        self.session = ""
        (target,) = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def close(self) -> None:
        self.session = ""
        self.call("Browser.close")
        self.process.wait(TIMEOUT)
        os.close(self.to_child)
        os.close(self.from_child)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Has the browser do something, and waits for the result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode("ascii") + b"\0"
        while data:
            data = data[os.write(self.to_child, data) :]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.from_child], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self.from_child, 1 << 20)
            assert data, "the browser has closed its pipe"
            self.received += data
        message, _, self.received = self.received.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def open(self, html: str) -> None:
        """Loads a page from a file, as a user would, and waits until it is there. `events` are those since then."""
        self.pages += 1
        file = Path(self.folder, f"{self.pages}.html")
        file.write_bytes(html.encode("utf-8"))
        self.events.clear()
        loader = self.call("Page.navigate", url=file.as_uri())["loaderId"]
        while not any(is_load(event, loader) for event in self.events):
            self.events.append(self.receive())

    def evaluate(self, script: str) -> Any:
        """The value of an expression of JavaScript, which must be JSON."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def copy(self, select: str) -> Any:
        """What Ctrl+C takes of the text that a statement selects, by setting the ends of `range`."""
        self.evaluate(
            "copied = null; range = document.createRange(); addEventListener('copy', "
            "event => { copied = event.clipboardData.getData('text/plain'); }, { once: true }); "
            f"{select}; getSelection().removeAllRanges(); getSelection().addRange(range)"
        )
        self.call("Input.dispatchKeyEvent", type="rawKeyDown", key="c", code="KeyC", modifiers=2, commands=["copy"])
        self.call("Input.dispatchKeyEvent", type="keyUp", key="c", code="KeyC", modifiers=2)
        return self.evaluate("copied")

    def press(self, key: str) -> None:
        """A key of the keyboard, such as Tab or ArrowDown."""
        codes = {"Tab": 9, "Escape": 27, "End": 35, "Home": 36, "Enter": 13,
                 "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}  # fmt: skip
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def point(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def look(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Sets the size of the window, and whether the reader prefers dark pages."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


def is_load(event: dict[str, Any], loader: str) -> bool:
    """Whether a page, known by its loader, has been loaded."""
    facts = event.get("params", {})
    return event.get("method") == "Page.lifecycleEvent" and (facts["name"], facts["loaderId"]) == ("load", loader)


def pipe() -> tuple[int, int]:
    """A pipe whose ends have numbers of 10 or more, so that 3 and 4 are free for the browser."""
    import fcntl  # POSIX only, as all of this

    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
