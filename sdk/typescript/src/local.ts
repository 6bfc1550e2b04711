// SPDX-License-Identifier: Apache-2.0
// The same as service.ts without a service: every operation is a `bawn ... --json`.

import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { EventEmitter, once } from "node:events";
import * as fs from "node:fs";
import { mkdtemp, open, rm, writeFile, type FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { checkPath, findCommand, pack, parseFind, type Backend, type Event, type Files, type Kind, type Output, type Stream } from "./backend.js";
import { Problem, TimedOut, Unreachable } from "./errors.js";
import { BadField, CannotSandbox, Conflict, NotFound, NotRunning, ReviewRequired, type ApplyRequest, type ApplyResult, type Checkpoint, type ExecRequest, type File, type Port, type Review, type Run, type RunRequest, type Sandbox, type SandboxRequest, type Shape } from "./types.js";

const LINE_MAX = 1024 * 1024; // of an agent's events; a longer line is output like any other
const RESULT = Buffer.from('{"status":'); // begins the last line that `bawn exec --json` writes to stderr
const CONFLICTS: Record<string, string> = { fail: "stop", ours: "skip", theirs: "overwrite", merge: "stop" };

/** What `bawn` says, as the error that the service would give. */
export function localProblem(text: string, status = 0): Problem {
  const detail = text.trim().split("\n").map((line) => line.replace(/^bawn: /, "")).join("\n") || `bawn ended with status ${status}`;
  if (/no sandbox '|there is no run|No such file or directory|there is no checkpoint|no run of this/.test(detail)) return new NotFound(detail, { code: "not_found" });
  if (/not running|is stopped/.test(detail)) return new NotRunning(detail, { code: "not_running" });
  if (/is in use|exists already|already exists/.test(detail)) return new Conflict(detail, { code: "conflict" });
  if (status === 64) return new BadField(detail, { code: "bad_field" });
  return new CannotSandbox(detail, { code: "cannot_sandbox" });
}

/** Of `bawn run` and `bawn start`. */
function options(shape: Shape, env: Record<string, string>): string[] {
  const words: string[] = [];
  for (const name of ["engine", "image", "profile"] as const) if (shape[name]) words.push(`--${name}=${shape[name]}`);
  for (const name of ["cpus", "memory", "pids", "disk", "timeout"] as const) if (shape.limits?.[name]) words.push(`--${name}=${shape.limits[name]}`);
  words.push(`--workspace=${shape.mode ?? "overlay"}`, `--ask=${shape.network?.ask ?? "never"}`);
  if (shape.network?.mode) words.push(`--network=${shape.network.mode}`);
  for (const host of shape.network?.allow ?? []) words.push(`--allow=${host}`);
  for (const host of shape.network?.deny ?? []) words.push(`--deny=${host}`);
  if (shape.secrets) words.push(...(shape.secrets.length ? shape.secrets.map((name) => `--secret=${name}`) : ["--no-secrets"]));
  return [...words, ...Object.entries(env).map(([name, value]) => `--env=${name}=${value}`)];
}

async function endOf(child: ChildProcess): Promise<number> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "close");
  return child.exitCode ?? -1;
}

/** `bawn` ends what it runs inside when it is ended, however that happens. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 5000);
  await endOf(child);
  clearTimeout(timer);
}

/** Splits what certainly is output from what may be the line of the result. */
class ResultHold {
  private tail: Buffer = Buffer.alloc(0);
  add(data: Buffer): Buffer {
    this.tail = Buffer.concat([this.tail, data]);
    let at = this.tail.lastIndexOf(RESULT);
    if (at < 0 || this.tail.subarray(at, -1).includes(10)) {
      at = this.tail.length;
      for (let n = Math.min(RESULT.length - 1, at); n > 0; n--)
        if (this.tail.subarray(-n).equals(RESULT.subarray(0, n))) {
          at -= n;
          break;
        }
    }
    const ready = this.tail.subarray(0, at);
    this.tail = this.tail.subarray(at);
    return ready;
  }
  /** The result, or what is output after all. */
  finish(): { result?: Record<string, unknown>; rest: Buffer } {
    try {
      const result: unknown = JSON.parse(this.tail.toString());
      if (result && typeof result === "object") return { result: result as Record<string, unknown>, rest: Buffer.alloc(0) };
    } catch {
      // no result
    }
    return { rest: this.tail };
  }
}

class LocalStream implements Stream {
  end?: { status: number; signal?: number };
  private readonly abort = () => this.close();
  constructor(private readonly child: ChildProcess, private readonly signal?: AbortSignal) {
    if (signal?.aborted) this.close();
    signal?.addEventListener("abort", this.abort, { once: true });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Output> {
    const hold = new ResultHold();
    let errors = "";
    try {
      for await (const { stream, data } of merge({ stdout: this.child.stdout!, stderr: this.child.stderr! })) {
        const ready = stream === "stderr" ? hold.add(data) : data;
        if (stream === "stderr") errors = (errors + ready.toString()).slice(-4096);
        if (ready.length) yield { stream, data: ready };
      }
      const status = await endOf(this.child);
      const { result, rest } = hold.finish();
      this.signal?.throwIfAborted();
      if (result) this.end = result as { status: number; signal?: number };
      else if (status === 125 || status === 64 || status < 0) throw localProblem(errors + rest.toString(), status);
      else {
        this.end = { status };
        if (rest.length) yield { stream: "stderr", data: rest };
      }
    } finally {
      this.signal?.removeEventListener("abort", this.abort);
      this.close();
    }
  }

  /** Killed, not asked: then all that the command has started ends with it, not only the command. */
  close(): void {
    this.child.kill("SIGKILL");
  }
}

/** Both pipes, as fast as the caller takes it: what he does not take stays in them. */
async function* merge(pipes: Record<"stdout" | "stderr", Readable>): AsyncGenerator<Output> {
  const waiting = new Map<string, Promise<{ name: "stdout" | "stderr"; item: IteratorResult<Buffer> }>>();
  const iterators = Object.entries(pipes).map(([name, pipe]) => [name as "stdout" | "stderr", pipe[Symbol.asyncIterator]() as AsyncIterator<Buffer>] as const);
  const next = (name: "stdout" | "stderr", iterator: AsyncIterator<Buffer>) =>
    waiting.set(name, iterator.next().then((item) => ({ name, item }), () => ({ name, item: { done: true as const, value: undefined } })));
  for (const [name, iterator] of iterators) next(name, iterator);
  while (waiting.size) {
    const { name, item } = await Promise.race(waiting.values());
    waiting.delete(name);
    if (item.done) continue;
    yield { stream: name, data: item.value };
    next(name, iterators.find(([n]) => n === name)![1]);
  }
}

/** How many bytes at the end are the beginning of a character of UTF-8. */
function cutCharacter(data: Buffer): number {
  for (let n = 1; n <= Math.min(3, data.length); n++) {
    const byte = data[data.length - n]!;
    if (byte >= 0xc0) return n < (byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4) ? n : 0;
    if (byte < 0x80) return 0;
  }
  return 0;
}

function isObject(line: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(line.toString());
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** A run of this process: its output in files, what happens as a list of places in them, so that memory does not grow with the output. */
class LocalRun extends EventEmitter {
  readonly created = new Date().toISOString();
  ended: string | null = null;
  state: Run["state"] = "running";
  status: number | null = null;
  reason: string | null = null;
  result: Record<string, unknown> | null = null;
  cancelled = false;
  readonly list: { type: string; time: string; at: number; length: number }[] = [];
  private readonly size = { stdout: 0, stderr: 0 };
  private readonly finished: Promise<void>;

  constructor(readonly name: string, readonly stored: string, readonly request: RunRequest, readonly child: ChildProcess, readonly folder: string, readonly workspace: string,
              private readonly files: Record<"stdout" | "stderr", FileHandle>) {
    super();
    this.setMaxListeners(0);
    this.add("state", 0, 0);
    this.finished = this.pump();
  }

  private add(type: string, at: number, length: number): void {
    this.list.push({ type, time: new Date().toISOString(), at, length });
    this.emit("change");
  }

  private async pump(): Promise<void> {
    const hold = new ResultHold();
    const tails = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
    const told = { stdout: 0, stderr: 0 };
    const take = async (stream: "stdout" | "stderr", data: Buffer, last: boolean) => {
      if (data.length) await this.files[stream].write(data, 0, data.length, this.size[stream]);
      this.size[stream] += data.length;
      tails[stream] = Buffer.concat([tails[stream], data]);
      const done = this.tell(stream, tails[stream], told[stream], last);
      tails[stream] = tails[stream].subarray(done);
      told[stream] += done;
    };
    let errors = "";
    for await (const { stream, data } of merge({ stdout: this.child.stdout!, stderr: this.child.stderr! })) {
      const ready = stream === "stderr" ? hold.add(data) : data;
      if (stream === "stderr") errors = (errors + ready.toString()).slice(-65536);
      await take(stream, ready, false);
    }
    const status = await endOf(this.child);
    const { result, rest } = hold.finish();
    await take("stdout", Buffer.alloc(0), true);
    await take("stderr", rest, true);
    this.result = result ?? null;
    if (result && result["started"] !== false) this.status = Number(result["status"]);
    else if (status !== 125 && status !== 64 && status >= 0) this.status = status;
    this.state = this.cancelled ? "cancelled" : this.status !== null ? "done" : "failed";
    this.reason = this.state === "done" ? null : this.cancelled ? "cancelled" : localProblem(errors + rest.toString(), status).message;
    this.ended = new Date().toISOString();
    this.add("exit", 0, 0);
  }

  /** Makes events of what is complete; how much that is. */
  private tell(stream: "stdout" | "stderr", tail: Buffer, at: number, last: boolean): number {
    if (stream === "stderr" || this.request.parse !== "jsonl") {
      const done = last ? tail.length : tail.length - cutCharacter(tail);
      if (done) this.add(stream, at, done);
      return done;
    }
    let done = 0;
    for (;;) {
      const newline = tail.indexOf(10, done);
      if (newline < 0 && !(last && done < tail.length) && tail.length - done < LINE_MAX) return done;
      const stop = newline >= 0 ? newline + 1 : tail.length;
      this.add(isObject(tail.subarray(done, stop)) ? "agent" : "stdout", at + done, stop - done);
      done = stop;
    }
  }

  async read(stream: "stdout" | "stderr", at: number, length: number): Promise<Buffer> {
    const { buffer, bytesRead } = await this.files[stream].read(Buffer.alloc(length), 0, length, at);
    return buffer.subarray(0, bytesRead);
  }

  async event(number: number): Promise<Event> {
    const { type, time, at, length } = this.list[number - 1]!;
    if (type === "state") return { id: number, type, time, data: { state: "running" } };
    if (type === "exit") return { id: number, type, time, data: { status: this.status } };
    const bytes = await this.read(type === "stderr" ? "stderr" : "stdout", at, length);
    return type === "agent" ? { id: number, type, time, data: JSON.parse(bytes.toString()) } : { id: number, type, time, data: bytes.toString(), bytes };
  }

  get info(): Run {
    return { id: this.name, state: this.state, command: this.request.command, created: this.created, started: this.created, ended: this.ended, status: this.status, reason: this.reason,
      result: this.result, stdout_bytes: this.size.stdout, stderr_bytes: this.size.stderr, labels: this.request.labels ?? {} };
  }

  async cancel(): Promise<void> {
    this.cancelled = this.cancelled || !this.ended;
    await end(this.child);
    await this.finished;
  }

  async close(): Promise<void> {
    await end(this.child);
    await this.finished;
    await this.files.stdout.close();
    await this.files.stderr.close();
  }
}

export class Local implements Backend {
  readonly local = true;
  private readonly program: string;
  private readonly workspaces = new Map<string, string>();
  private readonly made = new Map<string, string>(); // folders that are ours
  private readonly runs = new Map<string, LocalRun>();

  constructor(program?: string, private readonly environ?: NodeJS.ProcessEnv) {
    const found = program ?? process.env["BAWN"] ?? (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, "bawn")).find(isProgram);
    if (!found) throw new Unreachable("the program 'bawn' is not in PATH, and no service is configured (BAWN_URL)");
    this.program = found;
  }

  async close(): Promise<void> {
    for (const run of [...this.runs.keys()]) await this.runDelete(run);
  }

  // -- processes

  private spawn(words: string[], stdin: boolean): ChildProcess {
    return spawn(this.program, words, { stdio: [stdin ? "pipe" : "ignore", "pipe", "pipe"], env: this.environ });
  }

  private async started(words: string[], input?: Uint8Array | string, keepOpen = false): Promise<ChildProcess> {
    const child = this.spawn(words, input !== undefined || keepOpen);
    await new Promise<void>((resolve_, reject) => {
      child.once("spawn", resolve_);
      child.once("error", (e) => reject(new Unreachable(`cannot run '${this.program}': ${e.message}`)));
    });
    child.stdin?.on("error", () => undefined); // it did not want all of it
    if (input !== undefined) child.stdin!.end(input);
    return child;
  }

  private async call(words: string[], { input, ok = [0] }: { input?: Uint8Array; ok?: number[] } = {}): Promise<{ status: number; out: Buffer }> {
    const child = await this.started(words, input);
    const parts: Record<"stdout" | "stderr", Buffer[]> = { stdout: [], stderr: [] };
    for await (const { stream, data } of merge({ stdout: child.stdout!, stderr: child.stderr! })) parts[stream].push(data);
    const status = await endOf(child);
    if (!ok.includes(status)) throw localProblem(Buffer.concat(parts.stderr).toString(), status);
    return { status, out: Buffer.concat(parts.stdout) };
  }

  private async json<T>(...words: string[]): Promise<T> {
    return JSON.parse((await this.call(words)).out.toString() || "null") as T;
  }

  // -- workspaces

  private async workspace(name: string, shape: Shape): Promise<string> {
    if (shape.source?.git || shape.source?.run) throw new BadField("without a service the workspace is a folder: give its path", { code: "bad_field", field: "shape.source" });
    const path = shape.source?.path ?? (await mkdtemp(join(tmpdir(), "bawn-sdk.")));
    if (!shape.source?.path) this.made.set(name, path);
    this.workspaces.set(name, resolve(path));
    return resolve(path);
  }

  private async forget(name: string): Promise<void> {
    const folder = this.made.get(name);
    this.made.delete(name);
    this.workspaces.delete(name);
    if (folder) await rm(folder, { recursive: true, force: true });
  }

  // -- sandboxes

  async boxCreate(request: SandboxRequest, more: { name?: string; ports?: number[] }): Promise<Sandbox> {
    const name = more.name ?? `sdk-${randomBytes(6).toString("hex")}`;
    const shape = request.shape ?? {};
    const words = ["start", "--json", "--quiet", `--directory=${await this.workspace(name, shape)}`, ...options(shape, request.env ?? {})];
    if (request.idle) words.push(`--idle=${request.idle}`);
    for (const port of more.ports ?? []) words.push(`--publish=${port}`);
    try {
      await this.call([...words, name]);
    } catch (e) {
      await this.forget(name);
      throw e;
    }
    return this.boxGet(name);
  }
  async boxGet(box: string): Promise<Sandbox> {
    const details = await this.json<Record<string, unknown>>("inspect", "--json", box);
    const name = String(details["name"]);
    if (!this.workspaces.has(name)) this.workspaces.set(name, String(details["workspace"]));
    return { id: name, state: details["status"] as Sandbox["state"], created: String(details["created"]), reason: (details["why"] ?? null) as string | null, details };
  }
  async boxStart(box: string): Promise<Sandbox> {
    await this.call(["start", "--quiet", box]);
    return this.boxGet(box);
  }
  async boxStop(box: string): Promise<Sandbox> {
    await this.call(["stop", "--json", box]);
    return this.boxGet(box);
  }
  async boxDelete(box: string): Promise<void> {
    await this.call(["rm", "--force", "--discard-changes", box]);
    await this.forget(box);
  }
  async *boxList(): AsyncGenerator<Sandbox> {
    for (const row of await this.json<{ kind: string; name: string }[]>("ps", "--all", "--json")) if (row.kind === "persistent") yield this.boxGet(row.name);
  }
  async boxExec(box: string, request: ExecRequest, signal?: AbortSignal): Promise<Stream> {
    const words = ["exec", "--json", "--quiet", "--no-tty", ...Object.entries(request.env ?? {}).map(([k, v]) => `--env=${k}=${v}`)];
    if (request.cwd) words.push(`--workdir=${request.cwd}`);
    if (request.timeout) words.push(`--timeout=${request.timeout}`);
    return new LocalStream(await this.started([...words, box, "--", ...request.command], request.stdin), signal);
  }
  async *boxEvents(box: string, follow: boolean): AsyncGenerator<Event> {
    const stream = new LocalStream(await this.started(["log", "--json", ...(follow ? ["--follow"] : []), box]));
    let rest = "";
    for await (const { stream: name, data } of stream) {
      if (name !== "stdout") continue;
      const lines = (rest + data.toString()).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        const row = JSON.parse(line) as { seq: number; type: string; time: string };
        yield { id: row.seq, type: row.type, time: row.time, data: row };
      }
    }
  }
  checkpoint(box: string, tag: string): Promise<Checkpoint> {
    return this.json("checkpoint", "--json", box, tag);
  }
  checkpoints(box: string): Promise<Checkpoint[]> {
    return this.json("checkpoint", "ls", "--json", box);
  }
  async checkpointDelete(box: string, tag: string): Promise<void> {
    await this.call(["checkpoint", "rm", box, tag]);
  }
  async fork(box: string, checkpoint: string | undefined): Promise<Sandbox> {
    const name = `sdk-${randomBytes(6).toString("hex")}`;
    await this.json("fork", "--json", "--start", `--name=${name}`, ...(checkpoint ? [`--from=${checkpoint}`] : []), box);
    return this.boxGet(name);
  }
  async expose(box: string, port: number): Promise<Port> {
    for (const word of (await this.boxGet(box)).details?.["options"] as string[]) {
      const match = /^--publish=(\d+)(?::(\d+))?$/.exec(word);
      if (match && Number(match[1]) === port) return { port, address: `127.0.0.1:${match[2] ?? match[1]}` };
    }
    throw new BadField(`without a service a port is published when the sandbox is made: Sandbox.create({ ports: [${port}] })`, { code: "bad_field", field: "port" });
  }

  // -- runs

  async runCreate(request: RunRequest, files: Files, more: { branch?: string }, key?: string): Promise<Run> {
    const name = key ?? `sdk-${randomBytes(6).toString("hex")}`;
    const known = this.runs.get(name);
    if (known) return known.info;
    const shape = request.shape ?? {};
    const workspace = await this.workspace(name, shape);
    const state = await mkdtemp(join(tmpdir(), "bawn-sdk-run."));
    const stored = more.branch ?? name;
    const common = [`--directory=${workspace}`, ...options(shape, request.env ?? {})];
    if (!["direct", "ro"].includes(shape.mode ?? "overlay")) common.push(`--name=${stored}`);
    const words = ["run", "--json", "--quiet", "--no-tty", ...common];
    try {
      if (request.agent) {
        const { name: agent, ...setup } = request.agent;
        words.push(`--agent=${agent}`);
        if (Object.keys(setup).length) {
          await writeFile(join(state, "agent.json"), JSON.stringify(setup));
          words.push(`--agent-setup=${join(state, "agent.json")}`);
        }
      }
      if (Object.keys(files).length) await this.call(["run", "--quiet", "--no-tty", ...common, "--", "tar", "-x", "-f", "-"], { input: pack(files) });
      const child = await this.started([...words, "--", ...request.command], undefined, request.stdin);
      const handles = { stdout: await open(join(state, "stdout"), "w+"), stderr: await open(join(state, "stderr"), "w+") };
      this.runs.set(name, new LocalRun(name, stored, request, child, state, workspace, handles));
    } catch (e) {
      await rm(state, { recursive: true, force: true });
      await this.forget(name);
      throw e;
    }
    return this.runs.get(name)!.info;
  }
  private run(name: string): LocalRun {
    const run = this.runs.get(name);
    if (!run) throw new NotFound(`there is no run '${name}'`, { code: "not_found", status: 404 });
    return run;
  }
  async runGet(run: string): Promise<Run> {
    return this.run(run).info;
  }
  async runWait(name: string, timeoutMs?: number, signal?: AbortSignal): Promise<Run> {
    const run = this.run(name);
    const limit = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
    const stop = AbortSignal.any([limit, signal].filter((s) => s !== undefined));
    while (!run.ended) {
      try {
        await once(run, "change", { signal: stop });
      } catch (e) {
        if (limit?.aborted) throw new TimedOut(`run ${name} is still running`);
        throw e;
      }
    }
    return run.info;
  }
  async runCancel(run: string): Promise<Run> {
    const r = this.run(run);
    await r.cancel();
    return r.info;
  }
  async runSignal(run: string, number: number): Promise<void> {
    if (number) this.run(run).child.kill(number as unknown as NodeJS.Signals);
  }
  async runStdin(run: string, data: Uint8Array, close: boolean): Promise<void> {
    const pipe = this.run(run).child.stdin;
    if (!pipe?.writable) throw new Conflict("the run was made without stdin, or it is closed", { code: "conflict", status: 409 });
    await new Promise<void>((done, fail) => pipe.write(data, (e) => (e ? fail(new Conflict("the command has ended, or closed its input", { code: "conflict" })) : done())));
    if (close) pipe.end();
  }
  async *runOutput(run: string, stream: "stdout" | "stderr"): AsyncGenerator<Buffer> {
    const r = this.run(run);
    for (let at = 0; ; ) {
      const data = await r.read(stream, at, 65536);
      if (!data.length) return;
      at += data.length;
      yield data;
    }
  }
  async *runEvents(name: string, after: number, follow: boolean, signal?: AbortSignal): AsyncGenerator<Event> {
    const run = this.run(name);
    for (let number = after; ; ) {
      while (follow && number >= run.list.length && !run.ended) await once(run, "change", { signal });
      if (number >= run.list.length) return;
      yield await run.event(++number);
    }
  }
  async runDelete(name: string): Promise<void> {
    const run = this.run(name);
    this.runs.delete(name);
    await run.close();
    await this.call(["discard", "--yes", `--directory=${run.workspace}`, run.stored]).catch((e: unknown) => {
      if (!(e instanceof Problem)) throw e; // it left no changes
    });
    await rm(run.folder, { recursive: true, force: true });
    await this.forget(name);
  }
  async *runList(filters: Record<string, string | undefined>): AsyncGenerator<Run> {
    for (const run of [...this.runs.values()].reverse()) if (!filters["state"] || filters["state"] === run.state) yield run.info;
  }

  // -- files and changes

  private async files(kind: Kind, id: string, command: string[], input?: Uint8Array): Promise<Buffer> {
    if (kind === "sandboxes") return (await this.call(["exec", "--quiet", "--no-tty", id, "--", ...command], { input })).out;
    const run = this.run(id);
    if (!run.ended) throw new Conflict("the files of a run that has not ended are its own, without a service", { code: "conflict", status: 409 });
    const shape: Shape = { ...run.request.shape, network: { mode: "none" } };
    const words = [`--directory=${run.workspace}`, ...options(shape, {})];
    if (!["direct", "ro"].includes(shape.mode ?? "overlay")) words.push(`--name=${run.stored}`);
    return (await this.call(["run", "--quiet", "--no-tty", ...words, "--", ...command], { input })).out;
  }
  async *fileList(kind: Kind, id: string, path: string, recursive: boolean): AsyncGenerator<File> {
    yield* parseFind(await this.files(kind, id, findCommand(path, recursive)));
  }
  async *fileRead(kind: Kind, id: string, path: string): AsyncGenerator<Buffer> {
    checkPath(path);
    if (kind !== "sandboxes") {
      yield await this.files(kind, id, ["cat", "--", path]);
      return;
    }
    const child = await this.started(["get", id, path]);
    let error = "";
    try {
      for await (const { stream, data } of merge({ stdout: child.stdout!, stderr: child.stderr! })) {
        if (stream === "stdout") yield data;
        else error += data.toString();
      }
      const status = await endOf(child);
      if (status !== 0) throw localProblem(error, status);
    } finally {
      child.kill("SIGKILL");
    }
  }
  async fileWrite(kind: Kind, id: string, path: string, data: Uint8Array, executable: boolean): Promise<void> {
    checkPath(path);
    if (kind !== "sandboxes") {
      const script = 'mkdir -p -- "${1%/*}" && cat > "$1" && chmod "$2" -- "$1"';
      await this.files(kind, id, ["sh", "-c", script, "sh", `./${path}`, executable ? "755" : "644"], data);
      return;
    }
    const words = ["put", "--json", ...(executable ? ["--mode=755"] : []), id, path];
    try {
      await this.call(words, { input: data });
    } catch (e) {
      const folder = path.replace(/\/?[^/]*$/, "");
      if (!(e instanceof NotFound) || !folder) throw e;
      await this.files(kind, id, ["mkdir", "-p", "--", folder]);
      await this.call(words, { input: data });
    }
  }
  async fileDelete(kind: Kind, id: string, path: string): Promise<void> {
    await this.files(kind, id, ["rm", "-r", "--", `./${checkPath(path)}`]);
  }
  private async changes(verb: string, kind: Kind, id: string, words: string[], ok?: number[]): Promise<{ status: number; out: Buffer }> {
    const name = kind === "runs" ? this.run(id).stored : id;
    if (!this.workspaces.has(id)) await this.boxGet(id);
    return this.call([verb, `--directory=${this.workspaces.get(id)}`, ...words, name], { ok });
  }
  private async report(verb: string, kind: Kind, id: string, ...words: string[]): Promise<Review> {
    try {
      return JSON.parse((await this.changes(verb, kind, id, ["--json", ...words])).out.toString()) as Review;
    } catch (e) {
      if (!(e instanceof NotFound)) throw e;
      if (kind === "sandboxes") await this.boxGet(id);
      else this.run(id);
      return { version: 1, run: id, changes: [], folders: [], notes: [], summary: { changes: 0, high: 0, medium: 0, low: 0, none: 0, folded: 0 } };
    }
  }
  diff(kind: Kind, id: string): Promise<Review> {
    return this.report("diff", kind, id);
  }
  review(kind: Kind, id: string): Promise<Review> {
    return this.report("review", kind, id, "--fail-on=none");
  }
  async apply(kind: Kind, id: string, request: ApplyRequest): Promise<ApplyResult> {
    const words = [...(request.only ?? []).map((p) => `--only=${p}`), ...(request.except ?? []).map((p) => `--except=${p}`)];
    if (request.classes?.length) words.push(`--yes=${request.classes.join(",")}`);
    if (request.conflict) words.push(`--conflict=${CONFLICTS[request.conflict]}`);
    if (request.dry_run) words.push("--dry-run");
    const { status, out } = await this.changes("apply", kind, id, ["--json", ...words], [0, 1]);
    const result = JSON.parse(out.toString() || "{}") as { done?: boolean; risky?: string[]; changes?: unknown[] };
    if (status === 1 && !result.done) {
      if (result.risky?.length) throw new ReviewRequired(`of high risk: ${result.risky.join(", ")}`, { code: "review_required", status: 409 });
      throw new Conflict(`the host changed the same files: ${JSON.stringify(result.changes ?? [])}`, { code: "conflict", status: 409 });
    }
    return result as ApplyResult;
  }
  async discard(kind: Kind, id: string, only: string[]): Promise<void> {
    await this.changes("discard", kind, id, ["--yes", ...only.map((p) => `--only=${p}`)]);
  }
}

function isProgram(path: string): boolean {
  try {
    fs.accessSync(path, fs.constants.X_OK);
    return fs.statSync(path).isFile();
  } catch {
    return false;
  }
}

