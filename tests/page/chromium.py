"""A headless Chromium, driven by the driver that comes with it; nothing is fetched for it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
PROGRAMS = ("chromium", "chromedriver")
PATIENCE_S = 120


def missing() -> str:
    """What there is no browser for; "" if there is one."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "no selenium: pip install --group browser"
    gone = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"no {' and no '.join(gone)}: apt-get install chromium chromium-driver" if gone else ""


class Browser:
    """One window. Keep `profile` empty and for this one alone."""

    def __init__(self, profile: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(
            options=options, service=Service(shutil.which("chromedriver"))
        )
        self.driver.set_script_timeout(120)

    def close(self) -> None:
        self.driver.quit()

    def open(self, page: Path | str, width: int = 1280, height: int = 800) -> None:
        """Show a page until it says that it is ready, at this size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get_log("browser")
        self.driver.get(page if isinstance(page, str) else page.as_uri())
        assert self.until("return document.body.dataset.ready") == "yes"

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script answers."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, *arguments: Any) -> Any:
        """What a script gives to the call that is its last argument."""
        return self.driver.execute_async_script(script, *arguments)

    def until(self, script: str, wanted: Callable[[Any], Any] = bool, *arguments: Any) -> Any:
        """What a script answers once it is what is wanted."""
        end = time.monotonic() + PATIENCE_S
        while True:
            found = self.run(script, *arguments)
            if wanted(found):
                return found
            assert time.monotonic() < end, f"{script}: {found!r}"
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)
        self.drawn()

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def texts(self, selector: str) -> list[str]:
        script = (
            "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
        )
        return list(self.run(script, selector))

    def type(self, selector: str, words: str) -> None:
        """Type over what stands in a field."""
        script = (
            "const [field, words] = arguments; const found = document.querySelector(field);"
            " found.value = words; found.dispatchEvent(new Event(found.tagName === 'SELECT' ? 'change' : 'input'))"
        )
        self.run(script, selector, words)
        self.drawn()

    def press(self, *keys: str) -> None:
        """Press keys as a person does, wherever the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()
        self.drawn()

    def drawn(self) -> None:
        """Wait for what was asked for to be drawn: two frames, and what is looked for a moment later."""
        self.wait(
            "const done = arguments[0], frame = requestAnimationFrame;"
            " setTimeout(() => frame(() => frame(done)), 160)"
        )

    def slide(self, step: int) -> None:
        self.type(".slider", str(step))

    def complaints(self) -> list[str]:
        """What the console was told since the page was opened."""
        return [each["message"] for each in self.driver.get_log("browser")]

    def colours(self) -> int:
        """How many colours a screenshot has, as far as a canvas of 160 by 100 tells."""
        script = """
            const [data, done] = arguments;
            const image = new Image();
            image.onload = () => {
              const pen = Object.assign(document.createElement("canvas"), { width: 160, height: 100 }).getContext("2d");
              pen.drawImage(image, 0, 0, 160, 100);
              const found = new Set();
              const { data: bytes } = pen.getImageData(0, 0, 160, 100);
              for (let at = 0; at < bytes.length; at += 4) found.add(bytes.slice(at, at + 3).join());
              done(found.size);
            };
            image.src = "data:image/png;base64," + data;
        """
        return int(self.wait(script, self.driver.get_screenshot_as_base64()))
