// SPDX-License-Identifier: Apache-2.0
// HTTP to bawnd: over a unix socket, TCP or TLS; retries; server-sent events that resume.

import * as http from "node:http";
import * as https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { Problem, TimedOut, Unreachable } from "./errors.js";
import { PROBLEMS, ROUTES, type Event as ApiEvent, type Operation } from "./types.js";

const LINE_MAX = 8 * 1024 * 1024; // of a stream: twice what the service sends
const BODY_MAX = 256 * 1024 * 1024; // of an answer that is read as a whole
/** What a service that starts again, or one that has too much to do, answers. */
const LATER = new Set([429, 502, 503, 504]);
/** Of these codes nothing was done. A proxy in between says 502 or 504 also of what the service has begun. */
const REFUSED = new Set(["quota", "queue_full", "too_many", "draining"]);

export interface HttpOptions {
  token?: string;
  /** Milliseconds without an answer; 0: no limit. */
  timeout?: number;
  /** How long a request that may be repeated is, while the service is away. */
  retryMs?: number;
  ca?: string | Buffer;
}

export interface Ask {
  path?: Record<string, string>;
  query?: Record<string, string | number | boolean | undefined>;
  body?: Buffer | Uint8Array;
  json?: unknown;
  headers?: Record<string, string>;
  /** Idempotency key: makes a POST one that may be repeated. */
  key?: string;
  /** Milliseconds that the service waits by itself. */
  wait?: number;
  signal?: AbortSignal;
}

interface Sent {
  sent: boolean;
}

export class Http {
  private readonly agent: http.Agent;
  private readonly socketPath?: string;
  private readonly url?: URL;
  readonly retryMs: number;

  constructor(url: string, private readonly options: HttpOptions = {}) {
    const match = /^(?:http\+)?unix:\/\/(\/.+)$/.exec(url);
    if (match) this.socketPath = decodeURIComponent(match[1]!);
    else {
      this.url = new URL(url);
      if (this.url.protocol !== "http:" && this.url.protocol !== "https:")
        throw new TypeError(`not an address of a service: ${url} (unix:///PATH, http://HOST:PORT or https://HOST:PORT)`);
      if (this.url.protocol === "http:" && options.token && !["localhost", "127.0.0.1", "[::1]"].includes(this.url.hostname))
        throw new TypeError("a token is sent to another machine over https only");
    }
    this.retryMs = options.retryMs ?? 30000;
    this.agent = this.url?.protocol === "https:" ? new https.Agent({ keepAlive: true, ca: options.ca }) : new http.Agent({ keepAlive: true });
  }

  close(): void {
    this.agent.destroy();
  }

  private once(method: string, target: string, body: Uint8Array | undefined, headers: Record<string, string>, ask: Ask): Promise<http.IncomingMessage> {
    return new Promise((resolve, reject) => {
      const state: Sent = { sent: false };
      const place = this.socketPath !== undefined ? { socketPath: this.socketPath, host: "localhost" } : { host: this.url!.hostname.replace(/^\[|\]$/g, ""), port: this.url!.port };
      const make = this.url?.protocol === "https:" ? https.request : http.request;
      const limit = this.options.timeout ?? 300000;
      const request = make({ ...place, method, path: target, agent: this.agent, headers, signal: ask.signal, timeout: limit && limit + (ask.wait ?? 0) });
      request.on("socket", (socket) => {
        if (!socket.connecting) state.sent = true;
        socket.once("connect", () => (state.sent = true));
      });
      request.on("timeout", () => request.destroy(new TimedOut("the service did not answer in time")));
      request.on("response", resolve);
      request.on("error", (e) => {
        if (ask.signal?.aborted || e instanceof TimedOut) reject(e);
        else reject(Object.assign(new Unreachable(`the connection to the service broke: ${e.message}`), state));
      });
      request.end(body);
    });
  }

  /** The answer of an operation of the specification, or its problem. What may be asked twice is asked again while the service is away. */
  async open(operation: Operation, ask: Ask = {}): Promise<http.IncomingMessage> {
    const [method, template] = ROUTES[operation];
    let target: string = template;
    for (const [name, value] of Object.entries(ask.path ?? {})) target = target.replace(`{${name}}`, encodeURIComponent(value));
    const query = Object.entries(ask.query ?? {}).flatMap(([k, v]) => (v === undefined ? [] : [`${k}=${encodeURIComponent(String(v))}`]));
    if (query.length) target += `?${query.join("&")}`;
    const headers: Record<string, string> = { "User-Agent": "bawn-typescript", ...ask.headers };
    if (this.options.token) headers["Authorization"] = `Bearer ${this.options.token}`;
    if (ask.key) headers["Idempotency-Key"] = ask.key;
    let body = ask.body;
    if (ask.json !== undefined) {
      body = Buffer.from(JSON.stringify(ask.json));
      headers["Content-Type"] = "application/json";
    }
    if (body) headers["Content-Length"] = String(body.byteLength);
    const again = (method as string) !== "POST" || ask.key !== undefined;
    const deadline = Date.now() + this.retryMs;
    for (let pause = 50; ; pause = Math.min(pause * 2, 2000)) {
      let error: Error;
      let delay = pause;
      try {
        const answer = await this.once(method, target, body, headers, ask);
        if ((answer.statusCode ?? 500) < 400) return answer;
        const problem = await problemOf(answer);
        if (!LATER.has(problem.status) || !(again || REFUSED.has(problem.code))) throw problem;
        error = problem;
        delay = (problem.retryAfter ?? 0) * 1000 || pause;
      } catch (e) {
        if (!(e instanceof Unreachable) || (!again && (e as Unreachable & Partial<Sent>).sent)) throw e;
        error = e;
      }
      if (Date.now() + delay > deadline) throw error;
      await sleep(delay, undefined, { signal: ask.signal });
    }
  }

  async json<T>(operation: Operation, ask: Ask = {}): Promise<T> {
    const data = await readAll(await this.open(operation, ask));
    return (data.length ? JSON.parse(data.toString()) : undefined) as T;
  }

  /** Events, each once: after a break the stream goes on behind the last one. It ends with an event of type `last`. */
  async *events(operation: Operation, ask: Ask, options: { after?: number; follow?: boolean; last?: string } = {}): AsyncGenerator<ApiEvent> {
    let seen = options.after ?? 0;
    let since = Date.now();
    const follow = options.follow ?? true;
    for (;;) {
      const answer = await this.open(operation, {
        ...ask,
        query: { ...ask.query, after: seen || undefined, follow: follow ? undefined : false },
        headers: { Accept: "text/event-stream" },
      });
      try {
        for await (const event of parseSse(untimed(answer))) {
          if (event.id <= seen) continue;
          seen = event.id;
          since = Date.now();
          yield event;
          if (event.type === (options.last ?? "exit")) return;
        }
        if (!follow) return;
      } catch (e) {
        if (ask.signal?.aborted || !(e instanceof Unreachable) || Date.now() - since > this.retryMs) throw e;
      } finally {
        answer.destroy();
      }
      await sleep(50);
    }
  }
}

/** A stream may be silent for as long as the command is. */
export function untimed(answer: http.IncomingMessage): http.IncomingMessage {
  answer.socket.setTimeout(0);
  return answer;
}

export async function readAll(answer: AsyncIterable<Buffer>, most = BODY_MAX): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of chunksOf(answer)) {
    size += part.length;
    if (size > most) throw new Unreachable(`the answer has more than ${most} bytes; read it as a stream`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

export async function* chunksOf(answer: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* answer;
  } catch (e) {
    if (e instanceof Error && e.name === "AbortError") throw e;
    throw new Unreachable(`the connection to the service broke: ${e instanceof Error ? e.message : e}`);
  }
}

async function problemOf(answer: http.IncomingMessage): Promise<Problem> {
  const status = answer.statusCode ?? 500;
  let body: Record<string, unknown> = {};
  try {
    body = JSON.parse((await readAll(answer)).toString()) as Record<string, unknown>;
  } catch {
    body = { title: answer.statusMessage || `status ${status}` };
  }
  const code = String(body["code"] ?? "internal");
  const after = Number(answer.headers["retry-after"]);
  return new (PROBLEMS[code] ?? Problem)(String(body["detail"] ?? ""), {
    title: String(body["title"] ?? ""),
    status,
    code,
    field: body["field"] as string | undefined,
    instance: body["instance"] as string | undefined,
    retryAfter: Number.isFinite(after) ? after : undefined,
  });
}

/** Events with JSON as their data. Chunks may end anywhere, also within a character. */
export async function* parseSse(chunks: AsyncIterable<Buffer>): AsyncGenerator<ApiEvent> {
  let parts: Buffer[] = [];
  let size = 0;
  let data = "";
  for await (const chunk of chunksOf(chunks)) {
    parts.push(chunk);
    size += chunk.length;
    if (size + data.length > LINE_MAX) throw new Unreachable("an event of the service is too long");
    if (!chunk.includes(10)) continue;
    const all = Buffer.concat(parts);
    let from = 0;
    for (let end = all.indexOf(10, from); end >= 0; end = all.indexOf(10, from)) {
      const line = all.toString("utf8", from, end).replace(/\r$/, "");
      from = end + 1;
      if (line.startsWith("data:")) data += line.slice(line[5] === " " ? 6 : 5);
      else if (line === "" && data) {
        const event = JSON.parse(data) as ApiEvent;
        data = "";
        yield event;
      }
    }
    parts = [all.subarray(from)];
    size = all.length - from;
  }
}
