# SPDX-License-Identifier: Apache-2.0
"""The npm package, with a service and without one."""

import subprocess
import threading

import pytest
from sdk_programs import PROGRAMS

SERVICE = r"""
import assert from "node:assert/strict";
import { Client, CommandFailed, BadField, CannotSandbox, IdempotencyConflict, NotFound, NotRunning, TimedOut, Unauthorized, Unreachable, BawnError } from "bawn";

const url = process.argv[2];
const client = new Client({ url, retryMs: 600000 });
const box = await client.createSandbox({ labels: { a: "b" }, env: { GREETING: "hi" } });
assert.equal((await box.refresh()).state, "running");
let r = await box.run("echo $GREETING $X; echo bad >&2; exit 3", { env: { X: "y" } });
assert.deepEqual([r.status, r.stdout, r.stderr, r.ok], [3, "hi y\n", "bad\n", false]);
assert.equal((await box.run(["cat"], { stdin: "ä€\n".repeat(1000) })).stdout, "ä€\n".repeat(1000));
assert.equal((await box.run("sleep 600", { timeout: 0.2 })).status, 124);
await assert.rejects(box.run("echo oh >&2; exit 7", { check: true }), (e) => e instanceof CommandFailed && /status 7: oh/.test(e.message) && e.result.status === 7);

// Output arrives while the command runs: it goes on only when its first line was read here.
const got = [];
const process_ = await box.exec("echo first; while ! test -e go; do sleep 0.02; done; echo second >&2; exit 5");
for await (const { stream, data } of process_) {
  got.push([stream, data.toString()]);
  if (got.length === 1) {
    assert.equal(process_.status, null);
    await box.run("touch go");
  }
}
assert.deepEqual(got, [["stdout", "first\n"], ["stderr", "second\n"]]);
assert.equal(process_.status, 5);

// Leaving the loop, and aborting, ends the command.
for await (const _ of await box.exec("echo $$; sleep 1000 & sleep 1000")) break;
const stop = new AbortController();
const aborted = box.run("touch started; sleep 1000", { signal: stop.signal });
await box.run("while ! test -e started; do sleep 0.02; done");
stop.abort();
await assert.rejects(aborted, (e) => !(e instanceof BawnError) || e instanceof Unreachable);
await box.run("while pgrep -x sleep; do sleep 0.05; done");

// Characters in pieces, bytes that are none.
let text = "";
for await (const part of (await box.exec(["bash", "-c", String.raw`printf '\xe2\x82'; sleep 0.05; printf '\xac\xf0\x9f'; sleep 0.05; printf '\x98\x80\n'`])).text()) text += part.text;
assert.equal(text, "€😀\n");
assert.deepEqual([...(await box.run(["bash", "-c", String.raw`printf '\xff\xfe\x00a'`])).stdoutBytes], [255, 254, 0, 97]);

// Large output in bounded memory.
let size = 0;
for await (const { data } of await box.exec("yes | head -c 50331648")) size += data.length;
assert.equal(size, 50331648);
r = await box.run("yes | head -c 20000000", { outputMax: 1000 });
assert.deepEqual([r.stdoutBytes.length, r.stdoutCut], [1000, 19999000]);
assert.ok(process.resourceUsage().maxRSS < 400 * 1024, `${process.resourceUsage().maxRSS} KiB`);

// Files and changes.
await box.putBytes("a/b.bin", new Uint8Array(256000).fill(7));
await box.run("echo inside > a/new.txt");
assert.equal((await box.readFile("a/b.bin")).length, 256000);
assert.equal(await box.readText("a/new.txt"), "inside\n");
assert.deepEqual((await box.list("a")).map((f) => [f.path, f.type]), [["a/b.bin", "file"], ["a/new.txt", "file"]]);
await assert.rejects(box.readFile("nosuch"), NotFound);
for (const path of ["../x", "/etc/passwd"]) await assert.rejects(box.putBytes(path, "x"), BadField);
assert.match(await box.diff(), /\+inside/);
assert.equal((await box.review()).summary.high, 0);
assert.equal((await box.apply()).done, true);
assert.equal(await box.diff(), "");
await box.stop();
await assert.rejects(box.run("true"), NotRunning);
await box.delete();
await assert.rejects(client.sandbox(box.id), NotFound);

// Runs.
const run = await client.run(`echo out; echo '{"total_cost_usd": 0.25}'; echo new > n; exit 4`, { parse: "jsonl", labels: { job: "1" } });
const result = await run.result();
assert.deepEqual([result.state, result.status, result.cost, result.events], ["done", 4, 0.25, [{ total_cost_usd: 0.25 }]]);
const events = [];
for await (const event of run.events()) events.push(event);
assert.deepEqual(events.map((e) => e.type), ["state", "stdout", "agent", "exit"]);
const rest = [];
for await (const event of run.events({ after: events[1].id })) rest.push(event.id);
assert.deepEqual(rest, events.slice(2).map((e) => e.id));
const fed = await client.startRun("cat f g/h; cat", { files: { f: "1", "g/h": "2" }, stdin: true });
await fed.writeStdin("3\n", { close: true });
assert.equal((await fed.result()).stdout, "123\n");
await assert.rejects(client.run("sleep 1000", { timeout: 500 }), TimedOut);
const once = await client.run("echo once", { key: "job-1" });
assert.equal((await client.run("echo once", { key: "job-1" })).id, once.id);
await assert.rejects(client.run("echo twice", { key: "job-1" }), IdempotencyConflict);
await assert.rejects(client.getRun("run_0123456789012345678901"), (e) => e instanceof NotFound && e.code === "not_found" && e.status === 404 && !!e.instance);
await assert.rejects(new Client({ url, token: "bawn_wrong" }).request("getMe"), Unauthorized);
await assert.rejects(client.createSandbox({ profile: "nosuch" }), CannotSandbox);
await assert.rejects(new Client({ url: "unix:///nonexistent/socket", retryMs: 0 }).request("getHealth"), Unreachable);
await client.close();
console.log("all of it");
"""

LOCAL = r"""
import assert from "node:assert/strict";
import { readdirSync, mkdirSync, writeFileSync, readFileSync } from "node:fs";
import { Client, NotFound, ReviewRequired, Sandbox, TimedOut } from "bawn";

const workspace = process.argv[2];
writeFileSync(`${workspace}/a.txt`, "host\n");
const client = new Client({ local: true });
const box = await client.createSandbox({ workspace });
let r = await box.run("cat a.txt; echo bad >&2; exit 3");
assert.deepEqual([r.status, r.stdout, r.stderr], [3, "host\n", "bad\n"]);
assert.equal((await box.run("printf '{\"status\":1}' >&2")).stderr, '{"status":1}');
const got = [];
for await (const { stream, data } of await box.exec("echo first; while ! test -e /tmp/go; do sleep 0.02; done; echo second >&2")) {
  got.push([stream, data.toString()]);
  if (got.length === 1) await box.run("touch /tmp/go");
}
assert.deepEqual(got, [["stdout", "first\n"], ["stderr", "second\n"]]);
for await (const _ of await box.exec("echo $$; sleep 1000 & sleep 1000")) break;
await box.run("while pgrep -x sleep; do sleep 0.05; done");
await box.putBytes("sub/b.txt", "put\n");
assert.equal(await box.readText("sub/b.txt"), "put\n");
assert.deepEqual((await box.list("", { recursive: true })).map((f) => f.path), ["a.txt", "sub", "sub/b.txt"]);
assert.ok(!readdirSync(workspace).includes("sub"));
await box.checkpoint("one");
const fork = await box.fork({ checkpoint: "one" });
assert.equal(await fork.readText("sub/b.txt"), "put\n");
await fork.delete();
assert.match(await box.diff(), /\+put/);
await box.run("mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit");
await assert.rejects(box.apply(), ReviewRequired);
assert.equal((await box.apply({ only: ["sub/b.txt"] })).done, true);
assert.equal(readFileSync(`${workspace}/sub/b.txt`, "utf8"), "put\n");
await box.discard();
await box.delete();
await assert.rejects(client.sandbox(box.id), NotFound);

const run = await client.run(`echo out; echo '{"a":1}'; echo new > n.txt; echo bad >&2; exit 4`, { parse: "jsonl" });
const result = await run.result();
assert.deepEqual([result.status, result.stdout, result.stderr, result.events, result.changes], [4, 'out\n{"a":1}\n', "bad\n", [{ a: 1 }], 1]);
assert.equal(await run.readText("n.txt"), "new\n");
await run.delete();
await assert.rejects(client.run("sleep 1000", { timeout: 300 }), TimedOut);
assert.equal(await Sandbox.with({ client }, async (b) => (await b.run("echo $((6 * 7))")).stdout), "42\n");
await client.close();
console.log("all of it");
"""

TLS = r"""
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Client, Unauthorized, Unreachable } from "bawn";

const [url, token, certificate] = process.argv.slice(2);
const ca = readFileSync(certificate);
const client = new Client({ url, token, ca, retryMs: 600000 });
assert.equal((await client.request("getMe")).name, "acme");
assert.equal((await (await client.run("echo over tls")).result()).stdout, "over tls\n");
const box = await client.createSandbox();
await box.putBytes("big", new Uint8Array(3000000).fill(7));
assert.deepEqual(await box.readFile("big"), Buffer.alloc(3000000, 7));
const process_ = await box.exec("wc -c < big");
let said = "";
for await (const { data } of process_) said += data;
assert.deepEqual([said, process_.status], ["3000000\n", 0]);
await box.delete();
await assert.rejects(new Client({ url, token: token.slice(0, -1), ca }).request("getMe"), Unauthorized);
await assert.rejects(new Client({ url, token, retryMs: 0 }).request("getMe"), (e) => e instanceof Unreachable && /certificate/.test(e.message));
await client.close();
console.log("over tls");
"""

TYPED = """
import { Client, Sandbox, NotFound, type RunResult, type types } from "bawn";
async function go(): Promise<RunResult> {
  const box = await Sandbox.create({ network: ["@registries"], limit: 60, memory: "1g" });
  const state: types.Sandbox["state"] = box.info.state;
  for await (const { stream, data } of await box.exec(["true"])) console.log(stream.length + data.length, state);
  try { await box.readFile("x"); } catch (e) { if (e instanceof NotFound) console.log(e.code); }
  const client = new Client({ url: "unix:///x" });
  const review: types.Review = await box.review();
  console.log(review);
  return (await client.run(null, { agent: "claude", prompt: "x", skills: { a: "b" }, mcpServers: { m: { command: ["x"] } } })).result();
}
// @ts-expect-error: there is no such mode
void Sandbox.create({ mode: "nosuch" });
void go;
"""


def test_with_a_service(node, service):
    assert node(SERVICE, service.url) == "all of it\n"


@pytest.mark.parametrize("runner", ["root"], indirect=True)  # makes a tenant
def test_tls_with_a_token(node, tls):
    assert node(TLS, tls.url, tls.token, tls.certificate) == "over tls\n"


def test_what_an_agent_is_given(node, service, printer):
    script = r"""
import { Client } from "bawn";
const client = new Client({ url: process.argv[2], retryMs: 600000 });
const run = await client.run(null, { agent: process.argv[3], arguments: ["-c", "cat ~/.printer/ORDERS.md ~/.printer/skills/*/SKILL.md ~/.printer/mcp"], instructions: "Use tabs.",
  skills: { release: "Tag it." }, mcpServers: { docs: { command: ["docs-server"] } } });
console.log((await run.result()).stdout);
await client.close();
"""
    said = node(script, service.url, printer)
    assert all(text in said for text in ("Use tabs.", "Tag it.", "docs-server")), said


def test_without_a_service(node, runner):
    assert node(LOCAL, runner.workspace) == "all of it\n"


def test_the_service_restarts_during_a_wait(node, service):
    """The script says when; the events resume without a gap or repeat."""
    script = r"""
import assert from "node:assert/strict";
import { Client } from "bawn";
const client = new Client({ url: process.argv[2], retryMs: 600000 });
const run = await client.startRun("for i in 1 2 3 4; do echo $i; if test $i = 2; then sleep 2; fi; done");
let text = "";
const ids = [];
for await (const event of run.events()) {
  ids.push(event.id);
  text += event.bytes ?? "";
  if (text === "1\n2\n") process.kill(Number(process.argv[3]), "SIGKILL");
}
assert.equal(text, "1\n2\n3\n4\n");
assert.deepEqual(ids, [...new Set(ids)].sort((a, b) => a - b));
assert.equal((await run.wait()).info.status, 0);
await client.close();
console.log("resumed");
"""
    def restart():
        service.proc.wait()
        service.launch()

    thread = threading.Thread(target=restart)
    thread.start()
    assert node(script, service.url, str(service.proc.pid)) == "resumed\n"
    thread.join()


def test_types_are_there_for_a_strict_compiler(package):
    file = package / "typed.ts"
    file.write_text(TYPED)
    done = subprocess.run([PROGRAMS / "tsc/node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "NodeNext", "--target", "ES2022", "--typeRoots",
                           PROGRAMS / "node-types/node_modules/@types", "--types", "node", file], capture_output=True, text=True)
    file.unlink()
    assert done.returncode == 0, done.stdout
