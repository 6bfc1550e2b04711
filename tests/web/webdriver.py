# SPDX-License-Identifier: Apache-2.0
"""Chromium by chromedriver's WebDriver protocol, with nothing but the standard library."""

import base64
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage", "--force-device-scale-factor=1", "--hide-scrollbars",
         "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]


class Failure(Exception):
    pass


class Driver:
    """One chromedriver; browsers of it share nothing."""

    def __init__(self):
        self.proc = subprocess.Popen([shutil.which("chromedriver"), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.port = None
        for line in self.proc.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.port = int(found[1])
                break
        assert self.port, "chromedriver did not start"
        threading.Thread(target=self.proc.stdout.read, daemon=True).start()

    def stop(self):
        self.proc.terminate()
        self.proc.wait()


class Browser:
    def __init__(self, driver, width=1280, height=900):
        self.base = f"http://127.0.0.1:{driver.port}"
        self.profile = tempfile.mkdtemp(prefix="bawn-web.", dir="/var/tmp")
        options = {"args": [*FLAGS, f"--user-data-dir={self.profile}", f"--window-size={width},{height}"], "binary": shutil.which("chromium")}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options,
                                                                                 "goog:loggingPrefs": {"browser": "ALL"}, "unhandledPromptBehavior": "ignore"}}})
        self.base += f"/session/{answer['sessionId']}"
        self.size(width, height)

    def call(self, method, path, body=None):
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request) as r:
                return json.load(r)["value"]
        except urllib.error.HTTPError as e:
            value = json.load(e)["value"]
            raise Failure(f"{path}: {value['error']}: {value['message'][:600]}") from None

    def cdp(self, command, **params):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def size(self, width, height=900):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)

    def scheme(self, name):
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def run_async(self, script, *args):
        """The script awaits and returns: its value, or {"error": text}."""
        wrapped = f"const done = arguments[arguments.length - 1]; (async () => {{ {script} }})().then(done, (e) => done({{error: String(e)}}))"
        return self.call("POST", "/execute/async", {"script": wrapped, "args": list(args)})

    def wait(self, script, *args):
        """Until the expression is true; its value. There is no limit: the watchdog of the suite ends what hangs."""
        while True:
            value = self.run(f"return ({script})", *args)
            if value:
                return value
            time.sleep(0.05)

    def find(self, css):
        return self.call("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", css)
        self.call("POST", f"/element/{self.find(css)}/click")

    def type(self, css, text):
        self.call("POST", f"/element/{self.find(css)}/value", {"text": text})

    def keys(self, *keys):
        actions = [step for k in keys for step in ({"type": "keyDown", "value": k}, {"type": "keyUp", "value": k})]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def press(self, text, within="main"):
        """Clicks the button or link with this text."""
        self.wait("[...document.querySelectorAll(arguments[0] + ' button, ' + arguments[0] + ' a')].some(e => e.textContent.trim() === arguments[1] && e.offsetParent)", within, text)
        self.run("""const e = [...document.querySelectorAll(arguments[0] + ' button, ' + arguments[0] + ' a')].find(e => e.textContent.trim() === arguments[1] && e.offsetParent);
                    e.focus(); e.click()""", within, text)

    def text(self, css="main"):
        return self.run("const e = document.querySelector(arguments[0]); return e ? e.innerText : ''", css)

    def cookies(self):
        return {c["name"]: c for c in self.call("GET", "/cookie")}

    def logs(self):
        return self.call("POST", "/se/log", {"type": "browser"})

    def shot(self, path, whole=False):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        if whole:
            data = self.cdp("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        else:
            data = self.call("GET", "/screenshot")
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def stop(self):
        try:
            self.call("DELETE", "")
        finally:
            shutil.rmtree(self.profile, ignore_errors=True)
