// SPDX-License-Identifier: Apache-2.0
// Sandboxes and runs. The same classes with a service and without one.

import * as fs from "node:fs";
import { readFile as readHostFile, stat } from "node:fs/promises";
import { basename, dirname, join, parse, resolve } from "node:path";
import type { Backend, Event, Files, Kind, Output, Stream } from "./backend.js";
import { CommandFailed, Problem } from "./errors.js";
import { Http } from "./http.js";
import { Local } from "./local.js";
import { Service } from "./service.js";
import { ReviewRequired, type Agent, type ApplyRequest, type ApplyResult, type Checkpoint, type File, type McpServer, type Network, type Operation, type Review, type Run as RunInfo, type RunRequest, type Sandbox as SandboxInfo, type SandboxRequest, type Shape } from "./types.js";

const OUTPUT_MAX = 16 * 1024 * 1024;
const SYSTEM_SOCKET = "/run/bawn/api.sock";

/** A string is for the shell. */
export type Command = string | string[];

export interface ShapeOptions {
  /** A folder: of this machine, or with a service of its machine, if the tenant may use it. Without one the workspace is new and empty. */
  workspace?: string;
  git?: string;
  mode?: "direct" | "overlay" | "sync" | "worktree" | "ro";
  engine?: string;
  image?: string;
  profile?: string;
  cpus?: number | string;
  memory?: number | string;
  pids?: number;
  disk?: number | string;
  /** Seconds that the sandbox itself enforces. */
  limit?: number | string;
  network?: "none" | "list" | "limited" | "full" | string[] | Network;
  secrets?: string[];
  secretClass?: string;
  sourceRun?: string;
}

export interface SandboxOptions extends ShapeOptions {
  env?: Record<string, string>;
  labels?: Record<string, string>;
  /** Stopped when nothing was executed for this time. */
  idle?: number | string;
  /** Without a service only. */
  name?: string;
  ports?: number[];
}

export interface ExecOptions {
  env?: Record<string, string>;
  cwd?: string;
  stdin?: string;
  /** Seconds; then it is ended, with status 124. */
  timeout?: number | string;
  signal?: AbortSignal;
}

export interface RunOptions extends ShapeOptions {
  agent?: string;
  prompt?: string;
  arguments?: string[];
  instructions?: string;
  /** Texts by name, or paths of files or of folders with a SKILL.md. */
  skills?: Record<string, string> | string[];
  mcpServers?: Record<string, McpServer>;
  env?: Record<string, string>;
  branch?: string;
  labels?: Record<string, string>;
  stdin?: boolean;
  parse?: "none" | "jsonl";
  files?: Files;
  /** The same key makes one run, however often it is asked for. */
  key?: string;
}

export interface WaitOptions {
  /** Milliseconds. */
  timeout?: number;
  signal?: AbortSignal;
  check?: boolean;
}

// -- results

/** How a command in a sandbox ended. */
export class ExecResult {
  constructor(readonly status: number, readonly stdoutBytes: Buffer, readonly stderrBytes: Buffer, readonly signal: number, readonly stdoutCut: number, readonly stderrCut: number) {}
  get stdout(): string {
    return this.stdoutBytes.toString();
  }
  get stderr(): string {
    return this.stderrBytes.toString();
  }
  get ok(): boolean {
    return this.status === 0;
  }
}

/** What comes back from a run: these, and files that are asked for. */
export interface RunResult {
  id: string;
  state: string;
  status: number | null;
  stdout: string;
  stderr: string;
  reason: string | null;
  /** Objects that the agent printed (parse: "jsonl"). */
  events: Record<string, unknown>[];
  /** US dollars, if the agent tells. */
  cost: number | null;
  usage: Record<string, unknown>;
  changes: number | null;
  details: Record<string, unknown>;
}

type Json = Record<string, unknown>;
const objectOf = (value: unknown): Json => (value && typeof value === "object" ? (value as Json) : {});

/** What a run cost and used, by the last event that tells. */
export function agentCost(events: Json[]): { cost: number | null; usage: Json } {
  let cost: number | null = null;
  let steps = 0;
  let usage: Json = {};
  for (const event of events) {
    const part = objectOf(event["part"]);
    if (typeof event["total_cost_usd"] === "number") cost = event["total_cost_usd"];
    else if (typeof part["cost"] === "number") cost = steps += part["cost"];
    for (const holder of [event, part, objectOf(event["stats"])])
      for (const name of ["usage", "tokens"]) if (holder[name] && typeof holder[name] === "object") usage = holder[name] as Json;
  }
  return { cost, usage };
}

// -- requests

const argv = (command: Command): string[] => (typeof command === "string" ? ["sh", "-c", command] : command);
const duration = (value: number | string): string => (typeof value === "string" ? value : `${Math.max(1, Math.round(value * 1000))}ms`);

/** Without members that are undefined. */
function given<T extends object>(object: T): T {
  return Object.fromEntries(Object.entries(object).filter(([, v]) => v !== undefined)) as T;
}

function makeShape(o: ShapeOptions, branch?: string): Shape {
  const limits = given({ cpus: o.cpus?.toString(), memory: o.memory?.toString(), pids: o.pids, disk: o.disk?.toString(), timeout: o.limit === undefined ? undefined : duration(o.limit) });
  const source = given({ path: o.workspace === undefined ? undefined : resolve(o.workspace), git: o.git, branch, run: o.sourceRun });
  const network = o.network === undefined ? undefined : typeof o.network === "string" ? { mode: o.network } : Array.isArray(o.network) ? { mode: "list" as const, allow: o.network } : o.network;
  return given({
    engine: o.engine, image: o.image, profile: o.profile, mode: o.mode, class: o.secretClass, network, secrets: o.secrets,
    limits: Object.keys(limits).length ? limits : undefined,
    source: Object.keys(source).length ? source : undefined,
  });
}

/** Only these texts cross; what else is in the folders does not. */
async function readSkills(skills: Record<string, string> | string[]): Promise<Record<string, string>> {
  if (!Array.isArray(skills)) return skills;
  const found: Record<string, string> = {};
  for (const path of skills) {
    const folder = (await stat(path)).isDirectory();
    const name = folder ? basename(resolve(path)) : basename(path) === "SKILL.md" ? basename(dirname(resolve(path))) : parse(path).name;
    found[name.replace(/[^A-Za-z0-9._-]/g, "-").replace(/^[._-]+/, "") || "skill"] = await readHostFile(folder ? join(path, "SKILL.md") : path, "utf8");
  }
  return found;
}

/** How each agent is given a task without questions, and told to print events. The presets (profiles/agents) say the same in their "docs". */
const AGENT_TASKS: Record<string, (task: string) => string[]> = {
  claude: (task) => ["-p", task, "--dangerously-skip-permissions", "--output-format", "stream-json", "--verbose"],
  codex: (task) => ["exec", "--skip-git-repo-check", "--json", task],
  gemini: (task) => ["--yolo", "--output-format", "stream-json", "-p", task],
  opencode: (task) => ["run", "--format", "json", task],
};

// -- what a sandbox and a run have in common

/** The files of a sandbox or run, and what was changed in them. Paths are relative to the workspace. */
abstract class Workspace {
  protected abstract readonly kind: Kind;
  constructor(protected readonly api: Backend, readonly id: string) {}

  /** Writes a file: whole or not at all. Folders above it are made. */
  async putBytes(path: string, data: Uint8Array | string, options: { executable?: boolean } = {}): Promise<void> {
    await this.api.fileWrite(this.kind, this.id, path, Buffer.from(data as string), options.executable ?? false);
  }
  /** Copies a file of this machine into the workspace. */
  async putFile(source: string, path = basename(source)): Promise<void> {
    await this.putBytes(path, await readHostFile(source), { executable: ((await stat(source)).mode & 0o100) !== 0 });
  }
  /** A file as the commands inside see it. With a service, what a *run* changed is in its workspace after apply(). */
  async readFile(path: string): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const part of this.iterFile(path)) parts.push(part);
    return Buffer.concat(parts);
  }
  async readText(path: string): Promise<string> {
    return (await this.readFile(path)).toString();
  }
  iterFile(path: string): AsyncIterable<Buffer> {
    return this.api.fileRead(this.kind, this.id, path);
  }
  /** Copies a file of the workspace to this machine. */
  async getFile(path: string, target: string): Promise<void> {
    const out = await fs.promises.open(target, "w");
    try {
      for await (const part of this.iterFile(path)) await out.write(part);
    } finally {
      await out.close();
    }
  }
  async list(path = "", options: { recursive?: boolean } = {}): Promise<File[]> {
    const all: File[] = [];
    for await (const file of this.api.fileList(this.kind, this.id, path, options.recursive ?? false)) all.push(file);
    return all;
  }
  deleteFile(path: string): Promise<void> {
    return this.api.fileDelete(this.kind, this.id, path);
  }
  /** What was changed, as a patch; files that have none (binary, or too large) are left out of it. */
  async diff(): Promise<string> {
    const { changes } = (await this.changes()) as { changes?: { diff?: { patch?: string } }[] };
    return (changes ?? []).map((change) => change.diff?.patch ?? "").join("");
  }
  /** What was changed, with patches: spec/review.schema.json. */
  changes(): Promise<Review> {
    return this.api.diff(this.kind, this.id);
  }
  /** What was changed, the riskiest first, with the reason of each risk. */
  review(): Promise<Review> {
    return this.api.review(this.kind, this.id);
  }
  /** Brings the changes into the workspace. If one is of high risk nothing is done, ReviewRequired, unless `classes` names what may be. */
  apply(request: ApplyRequest = {}): Promise<ApplyResult> {
    return this.settled(() => this.api.apply(this.kind, this.id, request));
  }
  /** Throws the changes away, all or those that are named. */
  discard(only: string[] = []): Promise<void> {
    return this.settled(() => this.api.discard(this.kind, this.id, only));
  }
  protected settled<T>(action: () => Promise<T>): Promise<T> {
    return action();
  }
}

// -- a command in a sandbox

/** A command that runs in a sandbox. Iterating gives its output while it is written; close() ends the command. */
export class Process implements AsyncIterable<Output> {
  constructor(private readonly stream: Stream) {}

  [Symbol.asyncIterator](): AsyncIterator<Output> {
    return this.stream[Symbol.asyncIterator]();
  }
  /** A character that comes in two pieces is one. */
  async *text(): AsyncGenerator<{ stream: "stdout" | "stderr"; text: string }> {
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    for await (const { stream, data } of this) {
      const text = decoders[stream].decode(data, { stream: true });
      if (text) yield { stream, text };
    }
    for (const stream of ["stdout", "stderr"] as const) {
      const text = decoders[stream].decode();
      if (text) yield { stream, text };
    }
  }
  /** Lines of standard output. */
  async *lines(): AsyncGenerator<string> {
    let rest = "";
    for await (const { stream, text } of this.text()) {
      if (stream !== "stdout") continue;
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      yield* lines;
    }
    if (rest) yield rest;
  }
  async collect(outputMax = OUTPUT_MAX, onOutput?: (output: Output) => void): Promise<ExecResult> {
    const kept = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
    const size = { stdout: 0, stderr: 0 };
    const cut = { stdout: 0, stderr: 0 };
    for await (const output of this) {
      onOutput?.(output);
      const room = Math.max(0, outputMax - size[output.stream]);
      const part = output.data.subarray(0, room);
      if (part.length) kept[output.stream].push(part);
      size[output.stream] += part.length;
      cut[output.stream] += output.data.length - part.length;
    }
    const status = this.stream.end?.status ?? -1;
    const signal = this.stream.end?.signal || (status > 128 && status <= 192 ? status - 128 : 0);
    return new ExecResult(status, Buffer.concat(kept.stdout), Buffer.concat(kept.stderr), signal, cut.stdout, cut.stderr);
  }
  /** Its end; output that was not read is thrown away. */
  wait(): Promise<ExecResult> {
    return this.collect(0);
  }
  /** null while it runs. */
  get status(): number | null {
    return this.stream.end?.status ?? null;
  }
  close(): void {
    this.stream.close();
  }
}

/** A sandbox that stays until it is deleted. */
export class Sandbox extends Workspace {
  protected readonly kind = "sandboxes";
  private own = false;
  constructor(api: Backend, public info: SandboxInfo) {
    super(api, info.id);
  }

  static async create(options: SandboxOptions & ClientOptions & { client?: Client } = {}): Promise<Sandbox> {
    const client = options.client ?? new Client(options);
    const box = await client.createSandbox(options);
    box.own = !options.client;
    return box;
  }
  /** Makes one, calls `use`, and deletes it whatever happens. */
  static async with<T>(options: SandboxOptions & ClientOptions & { client?: Client }, use: (box: Sandbox) => Promise<T>): Promise<T> {
    const box = await Sandbox.create(options);
    try {
      return await use(box);
    } finally {
      await box.delete();
    }
  }
  async refresh(): Promise<SandboxInfo> {
    return (this.info = await this.api.boxGet(this.id));
  }

  /** Starts a command; its output comes while it runs. Aborting the signal ends it. */
  async exec(command: Command, options: ExecOptions = {}): Promise<Process> {
    const { signal, timeout, ...rest } = options;
    const request = given({ command: argv(command), ...rest, timeout: timeout === undefined ? undefined : duration(timeout) });
    return new Process(await this.api.boxExec(this.id, request, signal));
  }
  /** Runs a command to its end. */
  async run(command: Command, options: ExecOptions & { check?: boolean; outputMax?: number; onOutput?: (output: Output) => void } = {}): Promise<ExecResult> {
    const { check, outputMax, onOutput, ...rest } = options;
    const result = await (await this.exec(command, rest)).collect(outputMax, onOutput);
    if (check && !result.ok) throw new CommandFailed(result);
    return result;
  }

  async start(): Promise<void> {
    this.info = await this.api.boxStart(this.id);
  }
  /** Ends everything in it; its files stay. */
  async stop(): Promise<void> {
    this.info = await this.api.boxStop(this.id);
  }
  /** Ends it, and removes it with its workspace and everything of it. */
  async delete(): Promise<void> {
    try {
      await this.api.boxDelete(this.id);
    } finally {
      if (this.own) await this.api.close();
    }
  }
  checkpoint(tag: string): Promise<Checkpoint> {
    return this.api.checkpoint(this.id, tag);
  }
  checkpoints(): Promise<Checkpoint[]> {
    return this.api.checkpoints(this.id);
  }
  deleteCheckpoint(tag: string): Promise<void> {
    return this.api.checkpointDelete(this.id, tag);
  }
  /** A new sandbox with the files of this one, or of one of its checkpoints. */
  async fork(options: { checkpoint?: string; labels?: Record<string, string> } = {}): Promise<Sandbox> {
    return new Sandbox(this.api, await this.api.fork(this.id, options.checkpoint, options.labels ?? {}));
  }
  /** Where a port of the sandbox answers on the service's machine: "127.0.0.1:41234". */
  async expose(port: number): Promise<string> {
    return (await this.api.expose(this.id, port)).address;
  }
  /** What happens to it. */
  events(options: { follow?: boolean } = {}): AsyncIterable<Event> {
    return this.api.boxEvents(this.id, options.follow ?? true);
  }
  /** Its version of the workspace is settled only when nothing writes to it: it is stopped meanwhile. */
  protected override async settled<T>(action: () => Promise<T>): Promise<T> {
    const running = (await this.refresh()).state === "running";
    if (running) await this.stop();
    try {
      return await action();
    } finally {
      if (running) await this.start();
    }
  }
}

/** One command, or an agent, in a sandbox and a workspace of its own. */
export class Run extends Workspace {
  protected readonly kind = "runs";
  private reviewed = false;
  constructor(api: Backend, public info: RunInfo, private readonly requireReview = false) {
    super(api, info.id);
  }

  async refresh(): Promise<RunInfo> {
    return (this.info = await this.api.runGet(this.id));
  }
  /** When it has ended; TimedOut if that takes longer. The run goes on then. */
  async wait(options: { timeout?: number; signal?: AbortSignal } = {}): Promise<this> {
    this.info = await this.api.runWait(this.id, options.timeout, options.signal);
    return this;
  }
  async cancel(): Promise<void> {
    this.info = await this.api.runCancel(this.id);
  }
  signal(number: number): Promise<void> {
    return this.api.runSignal(this.id, number);
  }
  /** The run must have been made with `stdin`. */
  writeStdin(data: Uint8Array | string, options: { close?: boolean } = {}): Promise<void> {
    return this.api.runStdin(this.id, Buffer.from(data as string), options.close ?? false);
  }
  /** Output, states and the agent's own events, while they happen. Goes on by itself after a break, each event once. */
  events(options: { after?: number; follow?: boolean; signal?: AbortSignal } = {}): AsyncIterable<Event> {
    return this.api.runEvents(this.id, options.after ?? 0, options.follow ?? true, options.signal);
  }
  output(stream: "stdout" | "stderr" = "stdout"): AsyncIterable<Buffer> {
    return this.api.runOutput(this.id, stream);
  }
  async text(stream: "stdout" | "stderr" = "stdout", outputMax = OUTPUT_MAX): Promise<string> {
    const parts: Buffer[] = [];
    let room = outputMax;
    for await (const part of this.output(stream)) {
      parts.push(part.subarray(0, room));
      room -= part.length;
      if (room <= 0) break;
    }
    return Buffer.concat(parts).toString();
  }
  /** Waits, and collects what comes back. */
  async result(options: { timeout?: number; signal?: AbortSignal } = {}): Promise<RunResult> {
    const { info } = await this.wait(options);
    const events: Json[] = [];
    for await (const event of this.events({ follow: false })) if (event.type === "agent") events.push(event.data as Json);
    const details = info.result ?? {};
    return {
      id: this.id, state: info.state, status: info.status ?? null, stdout: await this.text("stdout"), stderr: await this.text("stderr"), reason: info.reason ?? null,
      events, ...agentCost(events), changes: (details["changes"] as number | undefined) ?? null, details,
    };
  }
  /** Removes it with its workspace and everything of it. */
  delete(): Promise<void> {
    return this.api.runDelete(this.id);
  }
  override async review(): Promise<Review> {
    const report = await super.review();
    this.reviewed = true;
    return report;
  }
  override async apply(request: ApplyRequest = {}): Promise<ApplyResult> {
    if (this.requireReview && !this.reviewed)
      throw new ReviewRequired("this client requires a review before changes are applied: call review() first", { code: "review_required", status: 409 });
    return super.apply(request);
  }
}

export interface ClientOptions {
  /** unix:///PATH, http://HOST:PORT or https://HOST:PORT; "local": no service; default: BAWN_URL, then the socket of this user's service or the system's. */
  url?: string;
  /** Default: BAWN_TOKEN. */
  token?: string;
  /** true: no service, the program `bawn` of this machine. Default: if there is no service. */
  local?: boolean;
  program?: string;
  environ?: NodeJS.ProcessEnv;
  timeout?: number;
  retryMs?: number;
  ca?: string | Buffer;
  /** apply() refuses what review() was not called for. */
  requireReview?: boolean;
}

/** A service, or `bawn` itself. */
export class Client {
  private readonly api: Backend;
  private readonly requireReview: boolean;

  constructor(options: ClientOptions = {}) {
    const named = options.url ?? (options.local ? undefined : process.env["BAWN_URL"] || usualSocket());
    const local = named === "local" || options.local;
    const url = local ? undefined : named;
    this.requireReview = options.requireReview ?? false;
    if (local || (url === undefined && options.local === undefined)) this.api = new Local(options.program, options.environ);
    else if (url === undefined) throw new TypeError("no service is configured: give its url, or set BAWN_URL");
    else {
      const ca = options.ca ?? (process.env["BAWN_CA"] ? fs.readFileSync(process.env["BAWN_CA"]) : undefined);
      this.api = new Service(new Http(url, { token: options.token ?? process.env["BAWN_TOKEN"], timeout: options.timeout, retryMs: options.retryMs, ca }));
    }
  }

  get local(): boolean {
    return this.api.local;
  }

  async createSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
    if (options.name && !this.local) throw new TypeError("the service chooses the names of sandboxes; use labels");
    const request: SandboxRequest = given({ shape: makeShape(options), env: options.env, labels: options.labels, idle: options.idle === undefined ? undefined : duration(options.idle) });
    return new Sandbox(this.api, await this.api.boxCreate(request, { name: options.name, ports: options.ports }));
  }
  /** One that exists. */
  async sandbox(id: string): Promise<Sandbox> {
    return new Sandbox(this.api, await this.api.boxGet(id));
  }
  async *sandboxes(): AsyncGenerator<Sandbox> {
    for await (const info of this.api.boxList()) yield new Sandbox(this.api, info);
  }

  /** Starts a run: a command, or with null the agent of the options. Returns when it is accepted. */
  async startRun(command: Command | null, options: RunOptions = {}): Promise<Run> {
    const shape = makeShape({ ...options, mode: options.mode ?? (options.branch && this.local ? "worktree" : undefined) }, this.local ? undefined : options.branch);
    const request: RunRequest = given({ command: [] as string[], shape, env: options.env, labels: options.labels, stdin: options.stdin, parse: options.parse });
    if (options.agent) {
      if (command !== null) throw new TypeError("an agent is its own command: give prompt or arguments");
      request.agent = given<Agent>({ name: options.agent, instructions: options.instructions, skills: options.skills && (await readSkills(options.skills)), mcp_servers: options.mcpServers });
      const task = AGENT_TASKS[options.agent];
      if (options.prompt !== undefined && !task) throw new TypeError(`how '${options.agent}' takes a task is not known: give its arguments`);
      request.command = [...(options.prompt !== undefined ? task!(options.prompt) : []), ...(options.arguments ?? [])];
      if (options.prompt !== undefined) request.parse ??= "jsonl";
    } else if (command === null || options.prompt || options.instructions || options.skills || options.mcpServers) {
      throw new TypeError("give a command, or an agent with what it is to do");
    } else request.command = argv(command);
    return new Run(this.api, await this.api.runCreate(request, options.files ?? {}, { branch: options.branch }, options.key), this.requireReview);
  }
  /** Runs a command or an agent to its end. After `timeout` milliseconds TimedOut is thrown and the run is cancelled; aborting cancels it, too. */
  async run(command: Command | null, options: RunOptions & WaitOptions = {}): Promise<Run> {
    const { timeout, signal, check, ...rest } = options;
    const run = await this.startRun(command, rest);
    try {
      await run.wait({ timeout, signal });
    } catch (e) {
      await run.cancel().catch(() => undefined);
      throw e;
    }
    if (check && run.info.status !== 0) throw new CommandFailed(await run.result());
    return run;
  }
  async getRun(id: string): Promise<Run> {
    return new Run(this.api, await this.api.runGet(id), this.requireReview);
  }
  async *runs(filters: { state?: string; label?: string } = {}): AsyncGenerator<Run> {
    for await (const info of this.api.runList(filters)) yield new Run(this.api, info, this.requireReview);
  }
  /** Any operation of the API by its name in spec/openapi.yaml, e.g. request("getMe"). */
  async request<T = unknown>(operation: Operation, ask: { path?: Record<string, string>; query?: Record<string, string | number | boolean>; body?: unknown } = {}): Promise<T> {
    if (!(this.api instanceof Service)) throw new Problem("this needs a service", { code: "not_implemented" });
    return this.api.http.json<T>(operation, { path: ask.path, query: ask.query, json: ask.body });
  }
  close(): Promise<void> {
    return this.api.close();
  }
}

function usualSocket(): string | undefined {
  const runtime = process.env["XDG_RUNTIME_DIR"];
  for (const path of [...(runtime ? [`${runtime}/bawn/api.sock`] : []), SYSTEM_SOCKET]) {
    try {
      fs.accessSync(path, fs.constants.W_OK);
      if (isListening(path)) return `unix://${path}`;
    } catch {
      // not there, or not for us
    }
  }
  return undefined;
}

/** A socket may be left over from a service that has ended. A constructor cannot connect, but the kernel has a list. */
function isListening(path: string): boolean {
  try {
    return fs.readFileSync("/proc/net/unix", "utf8").split("\n").some((line) => line.endsWith(` ${path}`) && line.split(/\s+/)[3] === "00010000");
  } catch {
    return true; // no such list: the first request will tell
  }
}

/** One command, or one agent, in a sandbox of its own. */
export async function run(command: Command | null, options: RunOptions & WaitOptions & ClientOptions & { client?: Client } = {}): Promise<Run> {
  return (options.client ?? new Client(options)).run(command, options);
}

