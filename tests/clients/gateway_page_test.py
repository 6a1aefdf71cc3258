#!/usr/bin/env python3
"""Tests the page of kinora-gateway in headless Chromium, in front of a frontend with the demo model.

gateway_page_test.py --screenshots docs/images also writes the pictures of the documentation there."""

from __future__ import annotations

import json
import struct
import sys
import tempfile
import unittest
import zlib
from pathlib import Path
from typing import Any, Callable

import harness
from gateway_test import TOKEN, Gateway, call

WAIT_SECONDS = 60
PROMPT = "a yellow triangle moves up on a blue background while a high tone plays"
LONG: dict[str, Any] = {"seconds": "4", "num_inference_steps": "999"}  # enough to be interrupted
AXE_FILES = [folder / "axe/axe_selenium_python/node_modules/axe-core/axe.min.js"
             for folder in (harness.ROOT / "third_party", Path("/usr/local/share/kinora"))]
AXE = next((file for file in AXE_FILES if file.exists()), AXE_FILES[0])
SCREENSHOTS: list[Path] = []  # the folder, if the command line names one
# Answers that a test asks for. Chromium logs each as an error of the network.
EXPECTED = ("401 (Unauthorized)", "404 (Not Found)", "422 (Unprocessable")


def png(width: int, height: int, colour: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + colour * width) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Browser:
    """Chromium at the page of one gateway."""

    def __init__(self, origin: str):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1440,900", "--hide-scrollbars"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.origin = origin
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_page_load_timeout(WAIT_SECONDS)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()

    def look(self, width: int, height: int, theme: str = "light") -> None:
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})

    def picture(self, name: str) -> None:
        for folder in SCREENSHOTS:
            self.driver.save_screenshot(str(folder / f"{name}.full.png"))
            palette = "split[a][b];[a]palettegen=max_colors=128[p];[b][p]paletteuse=dither=none"  # a third of the size
            harness.run(["ffmpeg", "-v", "error", "-y", "-i", f"{name}.full.png", "-vf", palette, f"{name}.png"], folder)
            (folder / f"{name}.full.png").unlink()

    def open(self, fragment: str = "") -> None:
        """A new visit, with nothing kept from the one before."""
        self.driver.get(f"{self.origin}/openapi.json")
        self.driver.execute_script("sessionStorage.clear()")
        self.driver.get(f"{self.origin}/{fragment}")

    def js(self, expression: str) -> Any:
        return self.driver.execute_script(f"return {expression}")

    def until(self, expression: str) -> Any:
        """Waits until a JavaScript expression is true, and returns its value."""
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait
        try:
            return WebDriverWait(self.driver, WAIT_SECONDS, 0.05).until(lambda _: self.js(expression))
        except TimeoutException:
            state = self.js("document.body.innerText")
            raise AssertionError(f"never true: {expression}\n{state}") from None

    def until_ready(self) -> None:
        self.until("document.getElementById('group-text').textContent === 'ready'")

    def find(self, selector: str) -> Any:
        from selenium.webdriver.common.by import By
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains
        ActionChains(self.driver).send_keys(*keys).perform()

    def generate(self, prompt: str = PROMPT, **values: str) -> str:
        """Fills the form, presses Ctrl-Enter, and returns the ID of the job."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys
        before = self.js("location.hash")
        self.js("document.getElementById('more').open = true")
        for name, value in {"prompt": prompt, **values}.items():
            field = self.find(f"#form [name={name}]")
            field.clear()
            field.send_keys(value)
        self.until("!document.getElementById('generate').disabled")
        ActionChains(self.driver).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
        return self.until(f"location.hash !== {json.dumps(before)} && location.hash.slice('#/v/'.length)")

    def until_playing(self) -> None:
        self.until("!clip.hidden && !clip.paused && clip.currentTime > 0")

    def focused(self) -> str:
        return self.js("(document.activeElement.id || document.activeElement.name || document.activeElement.tagName)")


class Visit(unittest.TestCase):
    """A frontend, a gateway and a browser for the tests of a class."""

    flags: Callable[[Path], list[str]] = staticmethod(lambda folder: ["--worker-memory-share=0.1"])
    gateway_flags: Callable[[Path], list[str]] = staticmethod(lambda folder: [])
    model = "demo"

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.frontend = cls.enterClassContext(harness.Frontend(cls.folder, cls.model, flags=cls.flags(cls.folder)))
        cls.gateway = cls.enterClassContext(Gateway(cls.frontend.address, cls.gateway_flags(cls.folder)))
        cls.port = cls.gateway.port
        cls.browser = cls.enterClassContext(Browser(f"http://127.0.0.1:{cls.port}"))

    def setUp(self) -> None:
        self.browser.look(1440, 900)
        self.browser.open()

    def tearDown(self) -> None:
        """The page logs no errors, and asks nobody but its own gateway."""
        driver, allowed = self.browser.driver, (self.browser.origin + "/", "data:", "blob:")
        errors = [entry["message"] for entry in driver.get_log("browser")
                  if entry["level"] == "SEVERE" and not (entry["source"] == "network" and any(answer in entry["message"] for answer in EXPECTED))]
        self.assertEqual(errors, [])
        events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
        asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        self.assertEqual([url for url in asked if not url.startswith(allowed)], [])

    def video(self, id: str) -> Any:
        return call(self.port, "GET", f"/v1/videos/{id}").json

    def assert_accessible(self) -> None:
        """axe-core finds no violation, and every control has a name."""
        self.assert_every_control_has_a_name()
        driver = self.browser.driver
        driver.execute_script(AXE.read_text())
        found = driver.execute_async_script(
            "const done = arguments[0]; axe.run().then(({violations}) => done(violations.map(({id, nodes}) => `${id}: ${nodes[0].html}`)), done)")
        self.assertEqual(found, [])

    def assert_every_control_has_a_name(self) -> None:
        controls = {"button", "checkbox", "combobox", "link", "searchbox", "slider", "spinbutton", "textbox", "progressbar", "dialog"}
        nodes = self.browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        found = [node for node in nodes if not node["ignored"] and node.get("role", {}).get("value") in controls]
        self.assertGreater(len(found), 2)
        self.assertEqual([node for node in found if not node.get("name", {}).get("value", "").strip()], [])


class ThePage(Visit):
    def test_a_clip_is_made_and_plays_with_sound(self) -> None:
        browser = self.browser
        browser.until_ready()
        self.assertEqual(browser.focused(), "prompt")
        browser.find("#prompt").send_keys(PROMPT)
        self.assertIn("s", browser.until("document.getElementById('cost').textContent"))
        id = browser.generate(seed="1")
        browser.until_playing()
        self.assertFalse(browser.js("clip.muted"))
        browser.until("clip.webkitAudioDecodedByteCount > 0 && clip.webkitVideoDecodedByteCount > 0")
        self.assertEqual(browser.js("[clip.videoWidth, clip.videoHeight]"), [128, 128])
        self.assertIn("seed 1", browser.find("#facts").text)
        browser.until(f"document.querySelector('#item-{id} img').naturalWidth > 0")
        actions = browser.js("[...document.querySelectorAll('#actions button')].map((each) => [each.textContent, each.offsetTop])")
        self.assertEqual([name for name, _ in actions], ["Download", "New seed", "First frame", "Last frame", "Retake", "Edit", "Link", "Delete"])
        self.assertEqual(len({top for _, top in actions}), 1, "one line")
        for theme in ("light", "dark"):
            browser.look(1440, 900, theme)
            self.assert_accessible()
        self.assertEqual(self.video(id)["num_frames"], 25)

    def test_a_picture_conditions_a_clip(self) -> None:
        browser = self.browser
        browser.until_ready()
        file = self.folder / "red.png"
        file.write_bytes(png(128, 128, b"\xe0\x20\x20"))
        browser.find("#add-pictures").send_keys(str(file))
        browser.until("document.querySelector('#pictures .chip img').naturalWidth === 128")
        self.assert_every_control_has_a_name()
        id = browser.generate("a red circle stays still on a white background", num_inference_steps="4")
        browser.until_playing()
        [condition] = self.video(id)["parameters"]["conditions"]
        self.assertEqual((condition["frame"], len(condition["image"])), (0, 64))
        browser.find("#actions [title^='Use the last frame']").click()
        browser.until("document.querySelector('#pictures .name').textContent === 'last frame.png'")

    def test_a_retake_states_its_range(self) -> None:
        browser = self.browser
        browser.until_ready()
        browser.generate(num_inference_steps="4")
        browser.until_playing()
        browser.js("[...document.querySelectorAll('#actions button')].find((each) => each.textContent === 'Retake').click()")
        browser.until("document.querySelector('#retake input[type=range]') === document.activeElement")
        browser.press("\ue014" * 5)  # the right arrow, 0.01 s each
        id = browser.generate("a yellow triangle stays still on a blue background", num_inference_steps="4")
        browser.until_playing()
        retake = self.video(id)["parameters"]["retake"]
        self.assertAlmostEqual(retake["start_seconds"], 25 / 48 + 0.05, delta=0.02)
        self.assertAlmostEqual(retake["end_seconds"], 25 / 24, delta=0.01)

    def test_a_job_is_followed_across_a_reload_and_cancelled(self) -> None:
        browser = self.browser
        browser.until_ready()
        id = browser.generate(**LONG)
        browser.until("document.getElementById('progress-text').textContent.startsWith('Denoising, step')")
        browser.until("!preview.hidden && preview.naturalWidth > 0")
        browser.driver.refresh()
        browser.until("!preview.hidden && preview.naturalWidth > 0")
        self.assertEqual(browser.js("location.hash"), f"#/v/{id}")
        step = "Number(document.getElementById('progress-text').textContent.match(/step (\\d+)/)?.[1] ?? 0)"
        before = browser.until(step)
        browser.until(f"{step} > {before}")
        self.assertEqual(browser.js("document.getElementById('prompt').value"), PROMPT)
        self.assertIn("left", browser.js("document.getElementById('progress').getAttribute('aria-valuetext')"))
        browser.find("#cancel").click()
        browser.until("document.getElementById('failed-text').textContent === 'This clip was cancelled.'")
        self.assertEqual(self.video(id)["state"], "cancelled")

    def test_wrong_values_stand_at_their_fields(self) -> None:
        browser = self.browser
        browser.until_ready()
        browser.js("document.getElementById('more').open = true")
        browser.find("#prompt").send_keys(PROMPT)
        browser.find("#fps").send_keys("0")
        browser.until("document.getElementById('fps').getAttribute('aria-invalid') === 'true'")
        words = call(self.port, "POST", "/v1/estimates", {"prompt": PROMPT, "fps": 0}).json["error"]["fields"][0]["message"]
        self.assertEqual(browser.find("#error-fps").text, words)
        browser.find("#prompt").click()
        browser.find("#generate").click()
        browser.until("document.activeElement.id === 'fps'")
        browser.find("#fps").clear()
        browser.until("document.getElementById('error-fps').hidden && document.getElementById('cost').textContent")

    def test_a_shape_that_does_not_fit_becomes_the_nearest_that_does(self) -> None:
        browser = self.browser
        browser.until_ready()
        estimates = {(side, frames): call(self.port, "POST", "/v1/estimates", {"prompt": PROMPT, "size": f"{side}x{side}", "num_frames": frames}).json
                     for side in (512, 768, 1024, 1536, 2048) for frames in (25, 49, 97, 193)}
        (side, frames), estimate = next(item for item in estimates.items() if item[1].get("fits") is False and item[1]["nearest"])
        browser.find("#shape").send_keys("Other")
        for name, value in {"width": str(side), "height": str(side), "seconds": str(frames / 24)}.items():
            browser.find(f"[name={name}]").clear()
            browser.find(f"[name={name}]").send_keys(value)
        browser.until("document.querySelector('#estimate button')")
        self.assertTrue(browser.js("document.getElementById('generate').disabled"))
        browser.find("#estimate button").click()
        browser.until("document.getElementById('cost').textContent")
        self.assertEqual(int(browser.js("document.getElementById('frames').textContent").split()[0]), estimate["nearest"]["num_frames"])

    def test_the_keyboard_reaches_everything(self) -> None:
        browser = self.browser
        browser.until_ready()
        ids = [browser.generate(num_inference_steps="2") for _ in range(2)]
        browser.until_playing()
        browser.find("#prompt").click()
        reached = []
        while len(reached) < 80 and (not reached or browser.focused() != "prompt"):
            browser.press("\ue004")  # Tab
            reached.append(browser.focused())
            outlined = browser.js("document.activeElement === document.body || getComputedStyle(document.activeElement.closest('.drop') ?? document.activeElement).outlineStyle !== 'none'")
            self.assertTrue(outlined, reached)
        for id in ("add-pictures", "shape", "seconds", "recipe", "seed", "generate", "play", "seek", "mute", "search", "filter", "theme"):
            self.assertIn(id, reached)

        browser.js("document.activeElement.blur()")
        browser.press("j")
        self.assertEqual(browser.js("document.activeElement.closest('.item').id"), f"item-{ids[1]}")
        browser.press("j", "\ue007")  # Enter
        browser.until(f"location.hash === '#/v/{ids[0]}'")
        browser.press("k")
        self.assertEqual(browser.js("document.activeElement.closest('.item').id"), f"item-{ids[1]}")
        browser.press("\ue017")  # Delete
        browser.until("document.getElementById('confirm-dialog').open")
        self.assertIn(PROMPT[:40], browser.find("#confirm-text").text)
        self.assert_every_control_has_a_name()
        browser.press("\ue007")
        browser.until(f"!document.getElementById('item-{ids[1]}')")
        browser.press("?")
        browser.until("document.getElementById('help-dialog').open")

    def test_history_is_searched_and_shows_its_states(self) -> None:
        browser = self.browser
        browser.until_ready()
        id = browser.generate("a purple star spins on a green background", num_inference_steps="2")
        browser.until_playing()
        browser.find("#search").send_keys("PURPLE star")
        browser.until(f"document.querySelectorAll('.item').length === 1 && document.getElementById('item-{id}')")
        browser.find("#filter").send_keys("failed")
        browser.until("document.getElementById('items-note').textContent === 'No clip matches.'")
        browser.find("#commands summary").click()
        browser.until("document.querySelectorAll('.command pre').length === 3")
        self.assertIn("--steps 2", browser.find(".command pre").text)

    def test_a_failed_job_says_why(self) -> None:
        browser = self.browser
        browser.until_ready()
        file = self.folder / "damaged.png"
        file.write_bytes(png(128, 128, b"\xe0\x20\x20")[:40] + bytes(64))
        browser.find("#add-pictures").send_keys(str(file))
        id = browser.generate("a red circle stays still on a white background", num_inference_steps="4")
        browser.until("!document.getElementById('failed').hidden")
        video = self.video(id)
        self.assertEqual((video["state"], browser.find("#failed-text").text), ("failed", video["error"]["message"]))
        browser.until("document.getElementById('alert').textContent !== ''")
        self.assertEqual(browser.find("#alert").get_attribute("textContent"), f"The clip failed: {video['error']['message']}")
        browser.until(f"document.querySelector('#item-{id} .meta').textContent.endsWith('✕ failed')")
        actions = browser.js("[...document.querySelectorAll('#actions button')].map((each) => each.textContent)")
        self.assertEqual(actions, ["Try again", "Edit", "Link", "Delete"])
        self.assertFalse(browser.js("document.getElementById('failed').classList.contains('calm')"))
        for theme in ("light", "dark"):
            browser.look(1440, 900, theme)
            self.assert_accessible()

    def test_the_queue_and_the_filter_reach_beyond_the_loaded_rows(self) -> None:
        browser = self.browser

        def create(**fields: Any) -> str:
            answer = call(self.port, "POST", "/v1/videos", {"prompt": PROMPT, **fields})
            self.assertEqual(answer.status, 200, answer.body)
            self.addCleanup(call, self.port, "POST", f"/v1/videos/{answer.json['id']}/cancel")
            return answer.json["id"]

        create(**LONG)
        old = create()
        call(self.port, "POST", f"/v1/videos/{old}/cancel")
        waiting = [create() for _ in range(31)]
        browser.open(f"#/v/{waiting[-1]}")
        browser.until("document.getElementById('queue').textContent === 'queue 31'")
        browser.until("document.getElementById('progress-text').textContent.startsWith('Number 31 in the queue')")
        self.assertEqual(browser.js("document.querySelectorAll('.item').length"), 30)
        self.assertFalse(browser.js(f"document.getElementById('item-{old}')"))
        browser.find("#filter").send_keys("cancelled")
        browser.until(f"document.getElementById('item-{old}')")
        shown = "[...document.querySelectorAll('.item:not([hidden]) .meta')].map((each) => each.textContent.split(' · ')[1])"
        self.assertEqual(set(browser.js(shown)), {"cancelled"})
        self.assertEqual(browser.js("document.getElementById('queue').textContent"), "queue 31")

    def test_a_lost_connection_comes_back(self) -> None:
        browser = self.browser
        browser.until_ready()
        browser.driver.execute_cdp_cmd("Network.enable", {})
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        browser.until("!document.getElementById('lost').hidden")
        online = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", online)
        browser.until("document.getElementById('lost').hidden")
        browser.until_ready()
        browser.driver.get_log("browser")  # has the failed requests

    def test_the_page_is_small_and_the_screenshots_of_the_documentation(self) -> None:
        browser = self.browser
        page = harness.ROOT / "server" / "gateway" / "page"
        self.assertLess(sum(file.stat().st_size for file in page.iterdir()), 90 * 1024)
        browser.until_ready()
        for seed, prompt in enumerate(("a red circle stays still on a white background while a medium tone plays",
                                       "a large yellow star moves left on a blue background in silence", PROMPT)):
            browser.generate(prompt, seed=str(seed + 1))
            browser.until_playing()
        browser.js("(document.getElementById('more').open = false, clip.pause(), clip.currentTime = 0.5)")
        browser.until("!clip.seeking")
        for width, height in ((1440, 900), (1024, 768), (390, 844), (360, 740)):
            browser.look(width, height)
            self.assertLessEqual(browser.js("document.documentElement.scrollWidth"), width)
            if width in (1440, 390):
                browser.picture(f"page-{width}")
        browser.look(1440, 900, "dark")
        browser.generate(PROMPT, **LONG)
        browser.until("/step (?:[4-9]\\d|\\d{3})/.test(document.getElementById('progress-text').textContent)")
        browser.js("(document.getElementById('more').open = false)")
        browser.picture("page-running-dark")
        browser.find("#cancel").click()
        browser.until("!document.getElementById('failed').hidden")


class WithTokens(Visit):
    @staticmethod
    def flags(folder: Path) -> list[str]:
        tokens = folder / "tokens"
        tokens.write_text(TOKEN + "\n")
        tokens.chmod(0o600)
        return [f"--token-file={tokens}"]

    def test_the_token_is_asked_for_and_kept_for_the_tab(self) -> None:
        browser = self.browser
        browser.until("document.getElementById('token-dialog').open")
        browser.until("document.getElementById('empty').textContent === 'token needed'")
        self.assertEqual(browser.focused(), "token")
        self.assert_every_control_has_a_name()
        browser.js("(window.rounds = 0, window.real = setTimeout, window.setTimeout = (task, wait) => (rounds += wait === 2000, real(task, wait)))")
        browser.find("#token-dialog [data-close]").click()
        browser.js("document.dispatchEvent(new Event('visibilitychange'))")  # it would read the state and the list now
        browser.until("rounds > 1")
        self.assertFalse(browser.js("document.getElementById('token-dialog').open"), "it is asked for once")
        browser.find("#token-open").click()
        browser.press("wrong", "\ue007")
        browser.until("!document.getElementById('token-error').hidden")
        browser.find("#token").clear()
        browser.find("#token").send_keys(TOKEN, "\ue007")
        browser.until_ready()
        id = browser.generate(num_inference_steps="2")
        browser.until_playing()
        self.assertNotIn(TOKEN, browser.js("clip.src"))
        browser.js("(clip.currentTime = 0.8)")
        browser.until("!clip.seeking && clip.currentTime > 0")
        browser.until(f"document.querySelector('#item-{id} img').naturalWidth > 0")
        browser.driver.refresh()
        browser.until_ready()
        browser.until("!clip.hidden")


class WithAdmin(Visit):
    gateway_flags = staticmethod(lambda folder: [f"--admin=unix:{folder / 'state' / 'admin.sock'}"])

    def test_the_groups_are_shown(self) -> None:
        browser = self.browser
        browser.until("document.getElementById('group-text').textContent === 'ready: 1 idle'")
        id = browser.generate(**LONG)
        browser.until("document.getElementById('group-text').textContent === 'ready: 1 busy'")
        [group] = call(self.port, "GET", "/v1/groups").json["data"]
        self.assertEqual(browser.find("#group").get_attribute("title"), f"group {group['id']}: busy, makes {id}")
        browser.find("#cancel").click()
        browser.until("document.getElementById('group-text').textContent === 'ready: 1 idle'")


class WithLtx25(Visit):
    """The model chooses the length of a clip; its weights are random."""

    model = ""
    flags = staticmethod(lambda folder: [f"--worker-model={harness.ROOT / 'models/tiny-2.5'}", "--worker-model=kind=distilled"])

    def test_a_range_of_seconds_leaves_the_length_to_the_model(self) -> None:
        browser = self.browser
        browser.until_ready()
        self.assertIn("1..20", browser.find("#form [name=seconds]").get_attribute("placeholder"))
        browser.find("#form [name=shape]").send_keys("Other")
        id = browser.generate(width="64", height="64", seconds="0.5..2", seed="1")
        browser.until_playing()
        video = self.video(id)
        self.assertTrue(12 <= video["num_frames"] <= 48, video["num_frames"])
        self.assertEqual({name: video["parameters"][name] for name in ("seconds", "min_seconds", "max_seconds")},
                         {"seconds": "auto", "min_seconds": 0.5, "max_seconds": 2})
        self.assertIn(f"{video['num_frames']} frames at 24 fps", browser.find("#facts").text)
        browser.js("(document.getElementById('commands').open = true)")
        browser.until("document.body.textContent.includes('--auto-length 0.5..2')")
        browser.find("#actions [title='Edit this request']").click()
        browser.until("document.querySelector('#form [name=seconds]').value === '0.5..2'")


class WithoutAGateway(Visit):
    def test_a_job_is_followed_across_a_restart_of_the_gateway(self) -> None:
        browser = self.browser
        browser.until_ready()
        id = browser.generate(**LONG)
        step = "Number(document.getElementById('progress-text').textContent.match(/step (\\d+)/)?.[1] ?? 0)"
        before = browser.until(step)
        self.gateway.__exit__()
        browser.until("document.getElementById('lost-text').textContent.startsWith('The connection is lost. Next try in')")
        # The stream of events ends at once, the request for groups fails when it is made next.
        browser.until("document.getElementById('group-text').textContent === 'not connected'")
        self.assertTrue(browser.find("#progress-text").is_displayed(), "nothing on the page is lost")
        self.assertEqual(browser.js("document.getElementById('prompt').value"), PROMPT)
        self.assert_accessible()
        self.gateway.__enter__()
        browser.js("document.getElementById('lost-now').click()")  # or it comes back by itself
        browser.until("document.getElementById('lost').hidden")
        browser.until_ready()
        browser.until(f"{step} > {before}")
        browser.find("#cancel").click()
        browser.until("document.getElementById('failed-text').textContent === 'This clip was cancelled.'")
        self.assertEqual(self.video(id)["state"], "cancelled")
        browser.driver.get_log("browser")  # has the failed requests


if __name__ == "__main__":
    if "--screenshots" in sys.argv:
        at = sys.argv.index("--screenshots")
        SCREENSHOTS.append(Path(sys.argv[at + 1]))
        del sys.argv[at:at + 2]
    harness.main(modules=["selenium"], programs=["chromium", "chromedriver"], folders=[str(AXE)])
