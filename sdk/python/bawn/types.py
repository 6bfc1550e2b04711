# SPDX-License-Identifier: Apache-2.0
"""What the API takes and gives. Made by tools/sdk-types from spec/openapi.yaml."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Mapping, Optional, Tuple, Type, TypedDict

from .errors import Problem as _Problem

Path = str

RunState = Literal["queued", "starting", "running", "done", "failed", "cancelled"]

Labels = Dict[str, str]

Environment = Dict[str, str]

Review = Dict[str, Any]

ApplyResult = Dict[str, Any]

Policy = Dict[str, Any]

Engines = Dict[str, Any]


class Health(TypedDict):
    status: Literal["ok", "draining"]
    version: str


class Limits(TypedDict, total=False):
    cpus: str
    memory: str
    pids: int
    disk: str
    timeout: str


class Network(TypedDict, total=False):
    mode: Literal["none", "list", "limited", "full"]
    allow: List[str]
    deny: List[str]
    ask: Literal["never", "wait"]


class Source(TypedDict, total=False):
    git: str
    branch: str
    path: str
    run: str


class _Agent(TypedDict):
    name: str


class Agent(_Agent, total=False):
    instructions: str
    skills: Dict[str, str]
    mcp_servers: Dict[str, McpServer]


class McpServer(TypedDict, total=False):
    command: List[str]
    url: str
    env: Environment


class _RunRequest(TypedDict):
    command: List[str]


class RunRequest(_RunRequest, total=False):
    shape: Shape
    env: Environment
    labels: Labels
    agent: Agent
    stdin: bool
    parse: Literal["none", "jsonl"]
    wait: int
    hold: bool


class _Run(TypedDict):
    id: str
    state: RunState
    command: List[str]
    created: str


class Run(_Run, total=False):
    labels: Labels
    started: Optional[str]
    ended: Optional[str]
    status: Optional[int]
    reason: Optional[str]
    result: Optional[Dict[str, Any]]
    stdout_bytes: int
    stderr_bytes: int


class RunList(TypedDict):
    items: List[Run]
    next: Optional[str]


class SignalRequest(TypedDict):
    signal: int


class SandboxRequest(TypedDict, total=False):
    shape: Shape
    env: Environment
    labels: Labels
    idle: str


class _Sandbox(TypedDict):
    id: str
    state: Literal["created", "starting", "running", "stopping", "stopped", "failed", "crashed"]
    created: str


class Sandbox(_Sandbox, total=False):
    labels: Labels
    reason: Optional[str]
    details: Optional[Dict[str, Any]]


class SandboxList(TypedDict):
    items: List[Sandbox]
    next: Optional[str]


class _ExecRequest(TypedDict):
    command: List[str]


class ExecRequest(_ExecRequest, total=False):
    env: Environment
    cwd: str
    stdin: str
    timeout: str
    output_max: int


class _ExecResult(TypedDict):
    status: int
    stdout: str
    stderr: str


class ExecResult(_ExecResult, total=False):
    signal: int
    stdout_cut: int
    stderr_cut: int
    duration_ms: float


class CheckpointRequest(TypedDict):
    tag: str


class _Checkpoint(TypedDict):
    tag: str


class Checkpoint(_Checkpoint, total=False):
    created: Optional[str]
    files: int
    bytes: int


class CheckpointList(TypedDict):
    items: List[Checkpoint]


class ForkRequest(TypedDict, total=False):
    checkpoint: str
    labels: Labels


class PortRequest(TypedDict):
    port: int


class Port(TypedDict):
    port: int
    address: str


class _File(TypedDict):
    path: str
    type: Literal["file", "folder", "link", "other"]


class File(_File, total=False):
    size: int
    mode: str
    modified: str
    target: str


class FileList(TypedDict):
    items: List[File]
    next: Optional[str]


class DiscardRequest(TypedDict, total=False):
    only: List[str]


class _RuleRequest(TypedDict):
    action: Literal["allow", "deny"]
    host: str


class RuleRequest(_RuleRequest, total=False):
    method: str
    path: str


class RuleAdded(TypedDict):
    id: str


class _Question(TypedDict):
    id: str
    sandbox: Optional[str]


class Question(_Question, total=False):
    kind: Literal["connection", "login", "network", "path", "package"]
    host: Optional[str]
    port: Optional[int]
    reason: Optional[str]
    seconds: int


class QuestionList(TypedDict):
    items: List[Question]


class _AnswerRequest(TypedDict):
    answer: Literal["deny", "once", "session", "always"]


class AnswerRequest(_AnswerRequest, total=False):
    reason: str


class Quotas(TypedDict, total=False):
    running: int
    queued: int
    runs_per_hour: int
    cpu_seconds_per_hour: int
    memory: int
    disk: int
    bytes_out_per_hour: int


class _TenantRequest(TypedDict):
    name: str


class TenantRequest(_TenantRequest, total=False):
    quotas: Quotas
    paths: List[str]


class _Tenant(TypedDict):
    name: str
    quotas: Quotas
    usage: Quotas


class Tenant(_Tenant, total=False):
    created: str
    uid: Optional[int]
    paths: List[str]


class TenantList(TypedDict):
    items: List[Tenant]
    next: Optional[str]


class TokenRequest(TypedDict, total=False):
    name: str
    expires: str
    admin: bool


class _Token(TypedDict):
    id: str
    tenant: str
    created: str


class Token(_Token, total=False):
    name: Optional[str]
    admin: bool
    expires: Optional[str]
    used: Optional[str]


class NewToken(TypedDict):
    id: str
    token: str


class TokenList(TypedDict):
    items: List[Token]


class SecretList(TypedDict):
    items: List[Dict[str, Any]]


class ImageList(TypedDict):
    items: List[Dict[str, Any]]


class AuditList(TypedDict):
    items: List[Dict[str, Any]]


class Link(TypedDict):
    url: str
    expires: str


class SessionRequest(TypedDict):
    code: str


class Session(TypedDict):
    csrf: str
    tenant: str
    admin: bool
    expires: str


class UsageList(TypedDict):
    items: List[Dict[str, Any]]


class VerdictList(TypedDict):
    items: List[Dict[str, Any]]


class _Event(TypedDict):
    id: int
    type: Literal["state", "stdout", "stderr", "agent", "network", "limit", "exit", "file"]
    time: str


class Event(_Event, total=False):
    data: Any
    base64: bool


Shape = TypedDict(
    "Shape",
    {
        "engine": 'str',
        "image": 'str',
        "profile": 'str',
        "mode": 'Literal["direct", "overlay", "sync", "worktree", "ro"]',
        "limits": 'Limits',
        "network": 'Network',
        "secrets": 'List[str]',
        "class": 'str',
        "source": 'Source',
    },
    total=False,
)

ApplyRequest = TypedDict(
    "ApplyRequest",
    {
        "only": 'List[str]',
        "except": 'List[str]',
        "classes": 'List[Literal["high", "dependencies", "medium", "low", "none"]]',
        "conflict": 'Literal["fail", "ours", "theirs", "merge"]',
        "dry_run": 'bool',
    },
    total=False,
)


# Operations: method and path.
ROUTES: Mapping[str, Tuple[str, str]] = {
    "getHealth": ("GET", "/v1/health"),
    "getMetrics": ("GET", "/v1/metrics"),
    "getMe": ("GET", "/v1/me"),
    "listEngines": ("GET", "/v1/engines"),
    "streamEvents": ("GET", "/v1/events"),
    "listAudit": ("GET", "/v1/audit"),
    "listSecrets": ("GET", "/v1/secrets"),
    "listImages": ("GET", "/v1/images"),
    "listRuns": ("GET", "/v1/runs"),
    "createRun": ("POST", "/v1/runs"),
    "getRun": ("GET", "/v1/runs/{id}"),
    "deleteRun": ("DELETE", "/v1/runs/{id}"),
    "cancelRun": ("POST", "/v1/runs/{id}/cancel"),
    "signalRun": ("POST", "/v1/runs/{id}/signal"),
    "writeStdin": ("POST", "/v1/runs/{id}/stdin"),
    "getOutput": ("GET", "/v1/runs/{id}/output/{stream}"),
    "streamRunEvents": ("GET", "/v1/runs/{id}/events"),
    "listSandboxes": ("GET", "/v1/sandboxes"),
    "createSandbox": ("POST", "/v1/sandboxes"),
    "getSandbox": ("GET", "/v1/sandboxes/{id}"),
    "deleteSandbox": ("DELETE", "/v1/sandboxes/{id}"),
    "startSandbox": ("POST", "/v1/sandboxes/{id}/start"),
    "stopSandbox": ("POST", "/v1/sandboxes/{id}/stop"),
    "execute": ("POST", "/v1/sandboxes/{id}/exec"),
    "openTerminal": ("GET", "/v1/sandboxes/{id}/terminal"),
    "listCheckpoints": ("GET", "/v1/sandboxes/{id}/checkpoints"),
    "createCheckpoint": ("POST", "/v1/sandboxes/{id}/checkpoints"),
    "deleteCheckpoint": ("DELETE", "/v1/sandboxes/{id}/checkpoints/{tag}"),
    "forkSandbox": ("POST", "/v1/sandboxes/{id}/fork"),
    "exposePort": ("POST", "/v1/sandboxes/{id}/ports"),
    "listFiles": ("GET", "/v1/{kind}/{id}/files"),
    "readFile": ("GET", "/v1/{kind}/{id}/file"),
    "writeFile": ("PUT", "/v1/{kind}/{id}/file"),
    "deleteFile": ("DELETE", "/v1/{kind}/{id}/file"),
    "readArchive": ("GET", "/v1/{kind}/{id}/archive"),
    "writeArchive": ("PUT", "/v1/{kind}/{id}/archive"),
    "watchFiles": ("GET", "/v1/{kind}/{id}/watch"),
    "getDiff": ("GET", "/v1/{kind}/{id}/diff"),
    "getReview": ("GET", "/v1/{kind}/{id}/review"),
    "applyChanges": ("POST", "/v1/{kind}/{id}/apply"),
    "discardChanges": ("POST", "/v1/{kind}/{id}/discard"),
    "getPolicy": ("GET", "/v1/policy"),
    "addRule": ("POST", "/v1/policy/rules"),
    "deleteRule": ("DELETE", "/v1/policy/rules/{rule}"),
    "listQuestions": ("GET", "/v1/questions"),
    "answerQuestion": ("POST", "/v1/questions/{question}"),
    "listTenants": ("GET", "/v1/tenants"),
    "createTenant": ("POST", "/v1/tenants"),
    "getTenant": ("GET", "/v1/tenants/{tenant}"),
    "changeTenant": ("PATCH", "/v1/tenants/{tenant}"),
    "deleteTenant": ("DELETE", "/v1/tenants/{tenant}"),
    "listTokens": ("GET", "/v1/tenants/{tenant}/tokens"),
    "createToken": ("POST", "/v1/tenants/{tenant}/tokens"),
    "deleteToken": ("DELETE", "/v1/tokens/{token}"),
    "createLink": ("POST", "/v1/links"),
    "createSession": ("POST", "/v1/session"),
    "endSession": ("DELETE", "/v1/session"),
    "listUsage": ("GET", "/v1/usage"),
    "listVerdicts": ("GET", "/v1/verdicts"),
}


class BadRequest(_Problem):
    code = "bad_request"


class BadJSON(_Problem):
    code = "bad_json"


class BadField(_Problem):
    code = "bad_field"


class Unauthorized(_Problem):
    code = "unauthorized"


class Forbidden(_Problem):
    code = "forbidden"


class NotFound(_Problem):
    code = "not_found"


class MethodNotAllowed(_Problem):
    code = "method_not_allowed"


class NotAcceptable(_Problem):
    code = "not_acceptable"


class Conflict(_Problem):
    code = "conflict"


class IdempotencyConflict(_Problem):
    code = "idempotency_conflict"


class NotRunning(_Problem):
    code = "not_running"


class AlreadyEnded(_Problem):
    code = "ended"


class ReviewRequired(_Problem):
    code = "review_required"


class TooLarge(_Problem):
    code = "too_large"


class UnsupportedType(_Problem):
    code = "unsupported_type"


class RangeNotSatisfiable(_Problem):
    code = "range"


class QuotaExceeded(_Problem):
    code = "quota"


class QueueFull(_Problem):
    code = "queue_full"


class TooMany(_Problem):
    code = "too_many"


class ServiceTimeout(_Problem):
    code = "timeout"


class CannotSandbox(_Problem):
    code = "cannot_sandbox"


class Draining(_Problem):
    code = "draining"


class NotImplemented(_Problem):
    code = "not_implemented"


class InternalError(_Problem):
    code = "internal"


PROBLEMS: Mapping[str, Type[_Problem]] = {
    "bad_request": BadRequest,
    "bad_json": BadJSON,
    "bad_field": BadField,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "method_not_allowed": MethodNotAllowed,
    "not_acceptable": NotAcceptable,
    "conflict": Conflict,
    "idempotency_conflict": IdempotencyConflict,
    "not_running": NotRunning,
    "ended": AlreadyEnded,
    "review_required": ReviewRequired,
    "too_large": TooLarge,
    "unsupported_type": UnsupportedType,
    "range": RangeNotSatisfiable,
    "quota": QuotaExceeded,
    "queue_full": QueueFull,
    "too_many": TooMany,
    "timeout": ServiceTimeout,
    "cannot_sandbox": CannotSandbox,
    "draining": Draining,
    "not_implemented": NotImplemented,
    "internal": InternalError,
}
