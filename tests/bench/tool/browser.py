"""A headless Chromium over the DevTools protocol's pipe: messages are JSON that ends with a NUL, on descriptors 3 and 4."""
import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time


HANG = 300  # seconds, after which a program that does not answer hangs


def find():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="trainwatt-browser-")
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def place():  # in the child: where the pipe is expected
            for place, end in ((3, theirs_in), (4, theirs_out)):
                os.dup2(end, place + 10)
            os.dup2(13, 3), os.dup2(14, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder}"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(theirs_in), os.close(theirs_out)
        self.read_end, self.write_end = ours_in, ours_out
        self.buffer, self.next_id, self.session = b"", 0, None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method, **params):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message(HANG)
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def message(self, seconds):
        until = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, page, width=1280, dark=False, height=900):
        """The page in a window of that width; waits until it says that it is there."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        its = self.call("Page.navigate", url=pathlib.Path(page).resolve().as_uri())["loaderId"]
        # Not the document's own word, which may still be that of the page before.
        def is_there(event):
            told = event.get("params", {})
            return event.get("method") == "Page.lifecycleEvent" and (told["loaderId"], told["name"]) == (its, "load")
        while not any(map(is_there, self.events)):
            self.events.append(self.message(HANG))

    def state(self):
        """What the page says of itself."""
        return self.evaluate("({...document.documentElement.dataset})")

    def requests(self, runs_scripts=True):
        """What it asked for besides itself. A page whose scripts are off has no timers to wait for."""
        if runs_scripts:
            self.evaluate("new Promise(done => setTimeout(done, 200))")
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in urls[1:] if not url.startswith("data:")] if urls else ["not even the page"]

    def complaints(self):
        found = [e["params"]["exceptionDetails"]["text"] for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        found += [str(e["params"]["args"]) for e in self.events
                  if e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning", "assert")]
        found += [e["params"]["entry"]["text"] for e in self.events
                  if e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] in ("error", "warning")]
        return found

    def screenshot(self, path, whole=True, runs_scripts=True):
        if runs_scripts:
            self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 300)))")  # until it is painted
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}} if whole else {}
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(picture))

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # a group of its own: start_new_session
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.read_end), os.close(self.write_end)
        shutil.rmtree(self.folder, ignore_errors=True)
