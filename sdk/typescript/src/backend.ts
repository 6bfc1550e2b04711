// SPDX-License-Identifier: Apache-2.0
// What the classes of sandbox.ts need: service.ts has it with a service, local.ts without one.

import { BadField, type ApplyRequest, type ApplyResult, type Checkpoint, type ExecRequest, type File, type Port, type Review, type Run, type RunRequest, type Sandbox, type SandboxRequest } from "./types.js";

export type Kind = "runs" | "sandboxes";
export type Output = { stream: "stdout" | "stderr"; data: Buffer };
export type Files = Record<string, string | Uint8Array>;

/** What happened; of stdout and stderr `bytes` is what was written. */
export interface Event {
  id: number;
  type: string;
  time: string;
  data?: unknown;
  bytes?: Buffer;
}

/** A command in a sandbox: output while it runs, then its end. */
export interface Stream extends AsyncIterable<Output> {
  end?: { status: number; signal?: number };
  close(): void;
}

export interface Backend {
  readonly local: boolean;
  close(): Promise<void>;
  boxCreate(request: SandboxRequest, more: { name?: string; ports?: number[] }): Promise<Sandbox>;
  boxGet(box: string): Promise<Sandbox>;
  boxStart(box: string): Promise<Sandbox>;
  boxStop(box: string): Promise<Sandbox>;
  boxDelete(box: string): Promise<void>;
  boxList(): AsyncIterable<Sandbox>;
  boxExec(box: string, request: ExecRequest, signal?: AbortSignal): Promise<Stream>;
  boxEvents(box: string, follow: boolean): AsyncIterable<Event>;
  checkpoint(box: string, tag: string): Promise<Checkpoint>;
  checkpoints(box: string): Promise<Checkpoint[]>;
  checkpointDelete(box: string, tag: string): Promise<void>;
  fork(box: string, checkpoint: string | undefined, labels: Record<string, string>): Promise<Sandbox>;
  expose(box: string, port: number): Promise<Port>;
  runCreate(request: RunRequest, files: Files, more: { branch?: string }, key?: string): Promise<Run>;
  runGet(run: string): Promise<Run>;
  runWait(run: string, timeoutMs?: number, signal?: AbortSignal): Promise<Run>;
  runCancel(run: string): Promise<Run>;
  runSignal(run: string, number: number): Promise<void>;
  runStdin(run: string, data: Uint8Array, close: boolean): Promise<void>;
  runOutput(run: string, stream: "stdout" | "stderr"): AsyncIterable<Buffer>;
  runEvents(run: string, after: number, follow: boolean, signal?: AbortSignal): AsyncIterable<Event>;
  runDelete(run: string): Promise<void>;
  runList(filters: Record<string, string | undefined>): AsyncIterable<Run>;
  fileList(kind: Kind, id: string, path: string, recursive: boolean): AsyncIterable<File>;
  fileRead(kind: Kind, id: string, path: string): AsyncIterable<Buffer>;
  fileWrite(kind: Kind, id: string, path: string, data: Uint8Array, executable: boolean): Promise<void>;
  fileDelete(kind: Kind, id: string, path: string): Promise<void>;
  diff(kind: Kind, id: string): Promise<Review>;
  review(kind: Kind, id: string): Promise<Review>;
  apply(kind: Kind, id: string, request: ApplyRequest): Promise<ApplyResult>;
  discard(kind: Kind, id: string, only: string[]): Promise<void>;
}

/** Of a file of the workspace, as the service checks it. */
export function checkPath(path: string): string {
  if (!path || path.startsWith("/") || path.includes("\0") || path.split("/").includes(".."))
    throw new BadField(`'${path}' is not a path in the workspace`, { code: "bad_field", field: "path", status: 400 });
  return path;
}

/** What a folder has, by the program `find` inside: names may have any byte but NUL. */
export function findCommand(path: string, recursive: boolean): string[] {
  return ["find", path ? `./${checkPath(path)}` : ".", "-mindepth", "1", ...(recursive ? [] : ["-maxdepth", "1"]), "-printf", "%y\\0%s\\0%m\\0%T@\\0%l\\0%p\\0"];
}

export function parseFind(data: Buffer): File[] {
  const fields = data.toString().split("\0");
  const types: Record<string, File["type"]> = { f: "file", d: "folder", l: "link" };
  const items: File[] = [];
  for (let i = 0; i + 5 < fields.length; i += 6) {
    const [letter, size, mode, modified, target, name] = fields.slice(i, i + 6) as [string, string, string, string, string, string];
    items.push({
      path: name.startsWith("./") ? name.slice(2) : name,
      type: types[letter] ?? "other",
      size: Number(size),
      mode: mode.padStart(4, "0"),
      modified: new Date(Number(modified) * 1000).toISOString(),
      ...(letter === "l" ? { target } : {}),
    });
  }
  return items.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** A tar archive of these. */
export function pack(files: Files): Buffer {
  const parts: Buffer[] = [];
  for (const [name, content] of Object.entries(files)) {
    checkPath(name);
    const data = Buffer.from(content as string);
    const path = Buffer.from(name);
    if (path.length > 100) parts.push(header("././@LongLink", path.length + 1, "L"), padded(Buffer.concat([path, Buffer.from([0])])));
    parts.push(header(path.subarray(0, 100).toString("latin1"), data.length, "0"), padded(data));
  }
  return Buffer.concat([...parts, Buffer.alloc(1024)]);
}

function padded(data: Buffer): Buffer {
  return Buffer.concat([data, Buffer.alloc((512 - (data.length % 512)) % 512)]);
}

function header(name: string, size: number, type: string): Buffer {
  const h = Buffer.alloc(512);
  h.write(name, 0, 100, "latin1");
  h.write("0000644\0", 100);
  h.write("0000000\0", 108);
  h.write("0000000\0", 116);
  h.write(size.toString(8).padStart(11, "0") + "\0", 124);
  h.write(Math.floor(Date.now() / 1000).toString(8).padStart(11, "0") + "\0", 136);
  h.fill(" ", 148, 156);
  h.write(type, 156);
  h.write("ustar  \0", 257);
  h.write(h.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0") + "\0 ", 148);
  return h;
}
