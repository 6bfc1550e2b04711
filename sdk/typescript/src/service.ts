// SPDX-License-Identifier: Apache-2.0
// What a service does for the classes of sandbox.ts.

import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { checkPath, findCommand, pack, parseFind, type Backend, type Event, type Files, type Kind, type Output, type Stream } from "./backend.js";
import { TimedOut, Unreachable } from "./errors.js";
import { chunksOf, parseSse, readAll, untimed, type Http } from "./http.js";
import { NotFound, type ApplyRequest, type ApplyResult, type Checkpoint, type Event as ApiEvent, type ExecRequest, type File, type Operation, type Port, type Review, type Run, type RunRequest, type Sandbox, type SandboxRequest } from "./types.js";

const WAIT = 20; // seconds that one question for the end of a run lasts
const BYTES = { "Content-Type": "application/octet-stream" };
const PIECE = 600 * 1024; // 800 KiB in base64: a request's stdin is at most 1 MiB
const PUT_SCRIPT = `mkdir -p -- "\${1%/*}" && base64 -d >>"$1.$2" && { test -z "$3" || { chmod "$3" "$1.$2" && mv -f -- "$1.$2" "$1"; }; } && exit 0
rm -f -- "$1.$2"; exit 1`;

function eventOf(event: ApiEvent): Event {
  if (event.type !== "stdout" && event.type !== "stderr") return { id: event.id, type: event.type, time: event.time, data: event.data };
  const bytes = Buffer.from(String(event.data ?? ""), event.base64 ? "base64" : "utf8");
  return { id: event.id, type: event.type, time: event.time, data: bytes.toString(), bytes };
}

class ServiceStream implements Stream {
  end?: { status: number; signal?: number };
  constructor(private readonly answer: IncomingMessage) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Output> {
    try {
      for await (const event of parseSse(untimed(this.answer))) {
        if (event.type === "exit") {
          this.end = event.data as { status: number };
          return;
        }
        if (event.type === "stdout" || event.type === "stderr") yield { stream: event.type, data: eventOf(event).bytes! };
      }
    } finally {
      this.close();
    }
    throw new Unreachable("the service ended before the command did");
  }

  /** The service ends a command whose client has gone. */
  close(): void {
    this.answer.on("error", () => undefined);
    this.answer.destroy();
  }
}

export class Service implements Backend {
  readonly local = false;
  private readonly modes = new Map<string, string>(); // of workspaces, by sandbox
  constructor(readonly http: Http) {}

  async close(): Promise<void> {
    this.http.close();
  }

  // -- sandboxes

  async boxCreate(request: SandboxRequest): Promise<Sandbox> {
    const made = await this.http.json<Sandbox>("createSandbox", { json: request, key: randomUUID() });
    this.modes.set(made.id, request.shape?.mode ?? "overlay");
    return made;
  }
  boxGet(id: string): Promise<Sandbox> {
    return this.http.json("getSandbox", { path: { id } });
  }
  boxStart(id: string): Promise<Sandbox> {
    return this.http.json("startSandbox", { path: { id } });
  }
  boxStop(id: string): Promise<Sandbox> {
    return this.http.json("stopSandbox", { path: { id } });
  }
  boxDelete(id: string): Promise<void> {
    return this.http.json("deleteSandbox", { path: { id } });
  }
  boxList(): AsyncIterable<Sandbox> {
    return this.pages("listSandboxes", {}, {});
  }
  async boxExec(id: string, request: ExecRequest, signal?: AbortSignal): Promise<Stream> {
    return new ServiceStream(await this.http.open("execute", { path: { id }, json: request, headers: { Accept: "text/event-stream" }, signal }));
  }
  async *boxEvents(box: string, follow: boolean): AsyncGenerator<Event> {
    for await (const event of this.http.events("streamEvents", {}, { follow, last: "" })) {
      const data = (event.data ?? {}) as Record<string, unknown>;
      if ([data["id"], data["sandbox"], data["run"]].includes(box)) yield eventOf(event);
    }
  }
  checkpoint(id: string, tag: string): Promise<Checkpoint> {
    return this.http.json("createCheckpoint", { path: { id }, json: { tag } });
  }
  async checkpoints(id: string): Promise<Checkpoint[]> {
    return (await this.http.json<{ items: Checkpoint[] }>("listCheckpoints", { path: { id } })).items;
  }
  checkpointDelete(id: string, tag: string): Promise<void> {
    return this.http.json("deleteCheckpoint", { path: { id, tag } });
  }
  fork(id: string, checkpoint: string | undefined, labels: Record<string, string>): Promise<Sandbox> {
    const json = { ...(checkpoint ? { checkpoint } : {}), ...(Object.keys(labels).length ? { labels } : {}) };
    return this.http.json("forkSandbox", { path: { id }, json, key: randomUUID() });
  }
  expose(id: string, port: number): Promise<Port> {
    return this.http.json("exposePort", { path: { id }, json: { port } });
  }

  // -- runs

  /** The key is the same for every attempt, so a run whose answer was lost is not made twice. */
  async runCreate(request: RunRequest, files: Files, _more: { branch?: string }, key?: string): Promise<Run> {
    const some = Object.keys(files).length > 0;
    const run = await this.http.json<Run>("createRun", { json: some ? { ...request, hold: true } : request, key: key ?? randomUUID() });
    if (some) await this.http.json("writeArchive", { path: { kind: "runs", id: run.id }, body: pack(files), headers: { "Content-Type": "application/x-tar" } });
    return run;
  }
  runGet(id: string): Promise<Run> {
    return this.http.json("getRun", { path: { id } });
  }
  async runWait(id: string, timeoutMs?: number, signal?: AbortSignal): Promise<Run> {
    const deadline = timeoutMs === undefined ? Infinity : Date.now() + timeoutMs;
    for (;;) {
      const wait = Math.max(0, Math.min(WAIT, Math.ceil((deadline - Date.now()) / 1000)));
      const run = await this.http.json<Run>("getRun", { path: { id }, query: { wait }, wait: wait * 1000, signal });
      if (["done", "failed", "cancelled"].includes(run.state)) return run;
      if (Date.now() >= deadline) throw new TimedOut(`run ${id} is still ${run.state}`);
    }
  }
  runCancel(id: string): Promise<Run> {
    return this.http.json("cancelRun", { path: { id } });
  }
  runSignal(id: string, signal: number): Promise<void> {
    return this.http.json("signalRun", { path: { id }, json: { signal } });
  }
  runStdin(id: string, data: Uint8Array, close: boolean): Promise<void> {
    return this.http.json("writeStdin", { path: { id }, query: { close }, body: data, headers: BYTES });
  }
  async *runOutput(id: string, stream: "stdout" | "stderr"): AsyncGenerator<Buffer> {
    yield* chunksOf(await this.http.open("getOutput", { path: { id, stream } }));
  }
  async *runEvents(id: string, after: number, follow: boolean, signal?: AbortSignal): AsyncGenerator<Event> {
    for await (const event of this.http.events("streamRunEvents", { path: { id }, signal }, { after, follow })) yield eventOf(event);
  }
  runDelete(id: string): Promise<void> {
    return this.http.json("deleteRun", { path: { id } });
  }
  runList(filters: Record<string, string | undefined>): AsyncIterable<Run> {
    return this.pages("listRuns", {}, filters);
  }

  // -- files and changes

  /** Whether it is a sandbox that runs with a version of the workspace that only the inside sees. */
  private async setAside(kind: Kind, id: string): Promise<boolean> {
    return kind === "sandboxes" && !["direct", "ro"].includes(this.modes.get(id) ?? "overlay") && (await this.boxGet(id)).state === "running";
  }

  private async *inside(id: string, command: string[], stdin?: string): AsyncGenerator<Buffer> {
    const stream = await this.boxExec(id, stdin ? { command, stdin } : { command });
    let error = "";
    for await (const { stream: name, data } of stream) {
      if (name === "stdout") yield data;
      else if (error.length < 4096) error += data.toString();
    }
    if (stream.end?.status !== 0) throw new NotFound(error.trim(), { code: "not_found", status: 404 });
  }

  async *fileList(kind: Kind, id: string, path: string, recursive: boolean): AsyncGenerator<File> {
    if (await this.setAside(kind, id)) yield* parseFind(await readAll(this.inside(id, findCommand(path, recursive))));
    else yield* this.pages<File>("listFiles", { kind, id }, { path: path || undefined, recursive: recursive || undefined, limit: 1000 });
  }
  async *fileRead(kind: Kind, id: string, path: string): AsyncGenerator<Buffer> {
    if (await this.setAside(kind, id)) yield* this.inside(id, ["cat", "--", checkPath(path)]);
    else yield* chunksOf(await this.http.open("readFile", { path: { kind, id }, query: { path } }));
  }
  async fileWrite(kind: Kind, id: string, path: string, data: Uint8Array, executable: boolean): Promise<void> {
    if (!(await this.setAside(kind, id)))
      return this.http.json("writeFile", { path: { kind, id }, query: { path, executable: executable || undefined }, body: data, headers: BYTES });
    // The inside has a version of its own, so the bytes go in by commands: as text, in pieces that a request can have.
    const name = `bawn-put-${randomUUID()}`;
    checkPath(path);
    for (let at = 0; at === 0 || at < data.length; at += PIECE) {
      const piece = Buffer.from(data.subarray(at, at + PIECE)).toString("base64");
      const mode = at + PIECE < data.length ? "" : executable ? "755" : "644";
      await readAll(this.inside(id, ["sh", "-c", PUT_SCRIPT, "sh", `./${path}`, name, mode], piece || undefined));
    }
  }
  async fileDelete(kind: Kind, id: string, path: string): Promise<void> {
    if (await this.setAside(kind, id)) await readAll(this.inside(id, ["rm", "-r", "--", `./${checkPath(path)}`]));
    else await this.http.json("deleteFile", { path: { kind, id }, query: { path } });
  }
  diff(kind: Kind, id: string): Promise<Review> {
    return this.http.json("getDiff", { path: { kind, id } });
  }
  review(kind: Kind, id: string): Promise<Review> {
    return this.http.json("getReview", { path: { kind, id } });
  }
  apply(kind: Kind, id: string, request: ApplyRequest): Promise<ApplyResult> {
    return this.http.json("applyChanges", { path: { kind, id }, json: request });
  }
  discard(kind: Kind, id: string, only: string[]): Promise<void> {
    return this.http.json("discardChanges", { path: { kind, id }, json: only.length ? { only } : {} });
  }

  private async *pages<T>(operation: Operation, path: Record<string, string>, query: Record<string, string | number | boolean | undefined>): AsyncGenerator<T> {
    let page: string | undefined;
    do {
      const answer: { items: T[]; next?: string | null } = await this.http.json(operation, { path, query: { ...query, page } });
      yield* answer.items;
      page = answer.next ?? undefined;
    } while (page);
  }
}
