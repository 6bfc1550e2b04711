# SPDX-License-Identifier: Apache-2.0
"""One engine, as one user, with what its sandboxes need of the environment."""

import time

import pytest


class Box:
    def __init__(self, name, runner, env, list_containers):
        self.name, self.runner, self.workspace = name, runner, runner.workspace
        self.env = {"BAWN_SANDBOX": name, **env}
        self.containers = list_containers
        plain = runner.environ
        runner.environ = lambda extra=None: plain({**self.env, **(extra or {})})

        self.remote = "BAWN_TEST_LINK" in env
        self.image = False  # on native, with an image of the store
        self.patience = 600  # seconds for what is bound to happen; where nothing is enforced, few are enough to see that it does not

    def keeps(self):
        (engine,) = (e for e in self.bawn("engines", "--json").json()["engines"] if e["name"] == self.name)
        return engine["rungs"][0]["keeps"]

    def wait_while(self, true):
        until = time.monotonic() + self.patience
        while true():
            assert time.monotonic() < until, "it does not end"
            time.sleep(0.1)

    def need(self, guarantee):
        if guarantee not in self.keeps():
            pytest.skip(f"engine {self.name} does not enforce {guarantee} here")

    def bawn(self, *args, **kw):
        return self.runner.bawn(*args, **kw)

    def run(self, *command, options=(), **kw):
        return self.runner.bawn("run", *options, "--", *command, **kw)
