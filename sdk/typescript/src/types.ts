// SPDX-License-Identifier: Apache-2.0
// What the API takes and gives. Made by tools/sdk-types from spec/openapi.yaml.

import { Problem as BaseProblem } from "./errors.js";

export type Path = string;

export type RunState = "queued" | "starting" | "running" | "done" | "failed" | "cancelled";

export interface Health {
  status: "ok" | "draining";
  version: string;
}

export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail?: string;
  instance?: string;
  code: "bad_request" | "bad_json" | "bad_field" | "unauthorized" | "forbidden" | "not_found" | "method_not_allowed" | "not_acceptable" | "conflict" | "idempotency_conflict" | "not_running" | "ended" | "review_required" | "too_large" | "unsupported_type" | "range" | "quota" | "queue_full" | "too_many" | "timeout" | "cannot_sandbox" | "draining" | "not_implemented" | "internal";
  field?: string;
}

export interface Limits {
  cpus?: string;
  memory?: string;
  pids?: number;
  disk?: string;
  timeout?: string;
}

export interface Network {
  mode?: "none" | "list" | "limited" | "full";
  allow?: string[];
  deny?: string[];
  ask?: "never" | "wait";
}

export interface Source {
  git?: string;
  branch?: string;
  path?: string;
  run?: string;
}

export interface Shape {
  engine?: string;
  image?: string;
  profile?: string;
  mode?: "direct" | "overlay" | "sync" | "worktree" | "ro";
  limits?: Limits;
  network?: Network;
  secrets?: string[];
  class?: string;
  source?: Source;
}

export type Labels = Record<string, string>;

export type Environment = Record<string, string>;

export interface Agent {
  name: string;
  instructions?: string;
  skills?: Record<string, string>;
  mcp_servers?: Record<string, McpServer>;
}

export interface McpServer {
  command?: string[];
  url?: string;
  env?: Environment;
}

export interface RunRequest {
  command: string[];
  shape?: Shape;
  env?: Environment;
  labels?: Labels;
  agent?: Agent;
  stdin?: boolean;
  parse?: "none" | "jsonl";
  wait?: number;
  hold?: boolean;
}

export interface Run {
  id: string;
  state: RunState;
  command: string[];
  labels?: Labels;
  created: string;
  started?: string | null;
  ended?: string | null;
  status?: number | null;
  reason?: string | null;
  result?: Record<string, unknown> | null;
  stdout_bytes?: number;
  stderr_bytes?: number;
}

export interface RunList {
  items: Run[];
  next: string | null;
}

export interface SignalRequest {
  signal: number;
}

export interface SandboxRequest {
  shape?: Shape;
  env?: Environment;
  labels?: Labels;
  idle?: string;
}

export interface Sandbox {
  id: string;
  state: "created" | "starting" | "running" | "stopping" | "stopped" | "failed" | "crashed";
  labels?: Labels;
  created: string;
  reason?: string | null;
  details?: Record<string, unknown> | null;
}

export interface SandboxList {
  items: Sandbox[];
  next: string | null;
}

export interface ExecRequest {
  command: string[];
  env?: Environment;
  cwd?: string;
  stdin?: string;
  timeout?: string;
  output_max?: number;
}

export interface ExecResult {
  status: number;
  signal?: number;
  stdout: string;
  stderr: string;
  stdout_cut?: number;
  stderr_cut?: number;
  duration_ms?: number;
}

export interface CheckpointRequest {
  tag: string;
}

export interface Checkpoint {
  tag: string;
  created?: string | null;
  files?: number;
  bytes?: number;
}

export interface CheckpointList {
  items: Checkpoint[];
}

export interface ForkRequest {
  checkpoint?: string;
  labels?: Labels;
}

export interface PortRequest {
  port: number;
}

export interface Port {
  port: number;
  address: string;
}

export interface File {
  path: string;
  type: "file" | "folder" | "link" | "other";
  size?: number;
  mode?: string;
  modified?: string;
  target?: string;
}

export interface FileList {
  items: File[];
  next: string | null;
}

export type Review = Record<string, unknown>;

export interface ApplyRequest {
  only?: string[];
  except?: string[];
  classes?: ("high" | "dependencies" | "medium" | "low" | "none")[];
  conflict?: "fail" | "ours" | "theirs" | "merge";
  dry_run?: boolean;
}

export type ApplyResult = Record<string, unknown>;

export interface DiscardRequest {
  only?: string[];
}

export type Policy = Record<string, unknown>;

export interface RuleRequest {
  action: "allow" | "deny";
  host: string;
  method?: string;
  path?: string;
}

export interface RuleAdded {
  id: string;
}

export interface Question {
  id: string;
  sandbox: string | null;
  kind?: "connection" | "login" | "network" | "path" | "package";
  host?: string | null;
  port?: number | null;
  reason?: string | null;
  seconds?: number;
}

export interface QuestionList {
  items: Question[];
}

export interface AnswerRequest {
  answer: "deny" | "once" | "session" | "always";
  reason?: string;
}

export interface Quotas {
  running?: number;
  queued?: number;
  runs_per_hour?: number;
  cpu_seconds_per_hour?: number;
  memory?: number;
  disk?: number;
  bytes_out_per_hour?: number;
}

export interface TenantRequest {
  name: string;
  quotas?: Quotas;
  paths?: string[];
}

export interface Tenant {
  name: string;
  created?: string;
  uid?: number | null;
  paths?: string[];
  quotas: Quotas;
  usage: Quotas;
}

export interface TenantList {
  items: Tenant[];
  next: string | null;
}

export interface TokenRequest {
  name?: string;
  expires?: string;
  admin?: boolean;
}

export interface Token {
  id: string;
  tenant: string;
  name?: string | null;
  admin?: boolean;
  created: string;
  expires?: string | null;
  used?: string | null;
}

export interface NewToken {
  id: string;
  token: string;
}

export interface TokenList {
  items: Token[];
}

export interface SecretList {
  items: { name: string; hosts?: string[] }[];
}

export interface ImageList {
  items: Record<string, unknown>[];
}

export interface AuditList {
  items: Record<string, unknown>[];
}

export interface Link {
  url: string;
  expires: string;
}

export interface SessionRequest {
  code: string;
}

export interface Session {
  csrf: string;
  tenant: string;
  admin: boolean;
  expires: string;
}

export interface UsageList {
  items: Record<string, unknown>[];
}

export interface VerdictList {
  items: Record<string, unknown>[];
}

export type Engines = Record<string, unknown>;

export interface Event {
  id: number;
  type: "state" | "stdout" | "stderr" | "agent" | "network" | "limit" | "exit" | "file";
  time: string;
  data?: unknown;
  base64?: boolean;
}

/** Operations: method and path. */
export const ROUTES = {
  getHealth: ["GET", "/v1/health"],
  getMetrics: ["GET", "/v1/metrics"],
  getMe: ["GET", "/v1/me"],
  listEngines: ["GET", "/v1/engines"],
  streamEvents: ["GET", "/v1/events"],
  listAudit: ["GET", "/v1/audit"],
  listSecrets: ["GET", "/v1/secrets"],
  listImages: ["GET", "/v1/images"],
  listRuns: ["GET", "/v1/runs"],
  createRun: ["POST", "/v1/runs"],
  getRun: ["GET", "/v1/runs/{id}"],
  deleteRun: ["DELETE", "/v1/runs/{id}"],
  cancelRun: ["POST", "/v1/runs/{id}/cancel"],
  signalRun: ["POST", "/v1/runs/{id}/signal"],
  writeStdin: ["POST", "/v1/runs/{id}/stdin"],
  getOutput: ["GET", "/v1/runs/{id}/output/{stream}"],
  streamRunEvents: ["GET", "/v1/runs/{id}/events"],
  listSandboxes: ["GET", "/v1/sandboxes"],
  createSandbox: ["POST", "/v1/sandboxes"],
  getSandbox: ["GET", "/v1/sandboxes/{id}"],
  deleteSandbox: ["DELETE", "/v1/sandboxes/{id}"],
  startSandbox: ["POST", "/v1/sandboxes/{id}/start"],
  stopSandbox: ["POST", "/v1/sandboxes/{id}/stop"],
  execute: ["POST", "/v1/sandboxes/{id}/exec"],
  openTerminal: ["GET", "/v1/sandboxes/{id}/terminal"],
  listCheckpoints: ["GET", "/v1/sandboxes/{id}/checkpoints"],
  createCheckpoint: ["POST", "/v1/sandboxes/{id}/checkpoints"],
  deleteCheckpoint: ["DELETE", "/v1/sandboxes/{id}/checkpoints/{tag}"],
  forkSandbox: ["POST", "/v1/sandboxes/{id}/fork"],
  exposePort: ["POST", "/v1/sandboxes/{id}/ports"],
  listFiles: ["GET", "/v1/{kind}/{id}/files"],
  readFile: ["GET", "/v1/{kind}/{id}/file"],
  writeFile: ["PUT", "/v1/{kind}/{id}/file"],
  deleteFile: ["DELETE", "/v1/{kind}/{id}/file"],
  readArchive: ["GET", "/v1/{kind}/{id}/archive"],
  writeArchive: ["PUT", "/v1/{kind}/{id}/archive"],
  watchFiles: ["GET", "/v1/{kind}/{id}/watch"],
  getDiff: ["GET", "/v1/{kind}/{id}/diff"],
  getReview: ["GET", "/v1/{kind}/{id}/review"],
  applyChanges: ["POST", "/v1/{kind}/{id}/apply"],
  discardChanges: ["POST", "/v1/{kind}/{id}/discard"],
  getPolicy: ["GET", "/v1/policy"],
  addRule: ["POST", "/v1/policy/rules"],
  deleteRule: ["DELETE", "/v1/policy/rules/{rule}"],
  listQuestions: ["GET", "/v1/questions"],
  answerQuestion: ["POST", "/v1/questions/{question}"],
  listTenants: ["GET", "/v1/tenants"],
  createTenant: ["POST", "/v1/tenants"],
  getTenant: ["GET", "/v1/tenants/{tenant}"],
  changeTenant: ["PATCH", "/v1/tenants/{tenant}"],
  deleteTenant: ["DELETE", "/v1/tenants/{tenant}"],
  listTokens: ["GET", "/v1/tenants/{tenant}/tokens"],
  createToken: ["POST", "/v1/tenants/{tenant}/tokens"],
  deleteToken: ["DELETE", "/v1/tokens/{token}"],
  createLink: ["POST", "/v1/links"],
  createSession: ["POST", "/v1/session"],
  endSession: ["DELETE", "/v1/session"],
  listUsage: ["GET", "/v1/usage"],
  listVerdicts: ["GET", "/v1/verdicts"],
} as const;

export type Operation = keyof typeof ROUTES;

export class BadRequest extends BaseProblem {}
export class BadJSON extends BaseProblem {}
export class BadField extends BaseProblem {}
export class Unauthorized extends BaseProblem {}
export class Forbidden extends BaseProblem {}
export class NotFound extends BaseProblem {}
export class MethodNotAllowed extends BaseProblem {}
export class NotAcceptable extends BaseProblem {}
export class Conflict extends BaseProblem {}
export class IdempotencyConflict extends BaseProblem {}
export class NotRunning extends BaseProblem {}
export class AlreadyEnded extends BaseProblem {}
export class ReviewRequired extends BaseProblem {}
export class TooLarge extends BaseProblem {}
export class UnsupportedType extends BaseProblem {}
export class RangeNotSatisfiable extends BaseProblem {}
export class QuotaExceeded extends BaseProblem {}
export class QueueFull extends BaseProblem {}
export class TooMany extends BaseProblem {}
export class ServiceTimeout extends BaseProblem {}
export class CannotSandbox extends BaseProblem {}
export class Draining extends BaseProblem {}
export class NotImplemented extends BaseProblem {}
export class InternalError extends BaseProblem {}

export const PROBLEMS: Record<string, typeof BaseProblem> = {
  bad_request: BadRequest,
  bad_json: BadJSON,
  bad_field: BadField,
  unauthorized: Unauthorized,
  forbidden: Forbidden,
  not_found: NotFound,
  method_not_allowed: MethodNotAllowed,
  not_acceptable: NotAcceptable,
  conflict: Conflict,
  idempotency_conflict: IdempotencyConflict,
  not_running: NotRunning,
  ended: AlreadyEnded,
  review_required: ReviewRequired,
  too_large: TooLarge,
  unsupported_type: UnsupportedType,
  range: RangeNotSatisfiable,
  quota: QuotaExceeded,
  queue_full: QueueFull,
  too_many: TooMany,
  timeout: ServiceTimeout,
  cannot_sandbox: CannotSandbox,
  draining: Draining,
  not_implemented: NotImplemented,
  internal: InternalError,
};
