# long file: made by test/support/print-python.ts from sdk/openapi.json: change sdk/contract.
"""What the API answers: dicts, with the names that the wire has."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union


class AbortedObjectUpload(TypedDict):
    id: str
    aborted: Literal[True]


class Account(TypedDict):
    name: str
    displayName: str
    plan: Literal["unmetered", "metered", "flat", "trial"]
    suspended: bool
    quotas: AccountQuotas
    used: AccountUsed
    flatMicrosPerMonth: Optional[int]
    dailyLimitMicros: Optional[int]
    spentTodayMicros: int
    creditedMicros: int
    spentMicros: int
    heldMicros: int
    availableMicros: Optional[int]
    unpaidSince: Optional[str]
    unpaidDeletesAt: Optional[str]
    createdAt: str


class AccountQuotas(TypedDict):
    running: Optional[int]
    vcpus: Optional[int]
    memoryMiB: Optional[int]
    kept: Optional[int]
    createdPerDay: Optional[int]


class AccountUsed(TypedDict):
    running: int
    vcpus: int
    memoryMiB: int
    kept: int
    createdToday: int


class AckTask(TypedDict):
    id: str
    lease: str


class _AddCredit(TypedDict):
    micros: int


class AddCredit(_AddCredit, total=False):
    note: str


class AddHost(TypedDict):
    hostId: str


class AddMemories(TypedDict):
    entries: List[NewMemory]


AddMemory = Union["NewMemory", "AddMemories"]


class AddedMemory(TypedDict):
    data: List[MemoryEntry]


class AgentPreset(TypedDict):
    id: PresetId
    kind: Literal["agent_preset"]
    title: str
    version: str
    homepage: Optional[str]
    image: str
    available: bool
    providers: List[str]
    port: int
    takesMessages: bool
    minMemoryMiB: int
    memoryMiB: int
    diskMiB: int
    proved: bool
    note: Optional[str]


class AgentPresetList(TypedDict):
    data: List[AgentPreset]


class _AttachVolume(TypedDict):
    sandboxId: str
    path: str


class AttachVolume(_AttachVolume, total=False):
    mode: Literal["rw", "snapshot"]


class _Attachment(TypedDict):
    id: str
    volumeId: str
    sandboxId: str
    path: str
    mode: Literal["rw", "snapshot"]
    state: Literal["attaching", "active", "detaching", "detached"]
    generation: int
    error: Optional[str]
    attachedAt: str
    changedAt: str


class Attachment(_Attachment, total=False):
    replayed: bool


Awake = Union["Awake1", "Awake2", "Awake3", "Awake4", "Awake5"]


class Awake1(TypedDict):
    because: Literal["hold"]
    name: str
    until: str


class Awake2(TypedDict):
    because: Literal["connections"]
    count: int


class Awake3(TypedDict):
    because: Literal["recent_use"]
    lastActiveAt: str
    pausesAt: str


class Awake4(TypedDict):
    because: Literal["cpu"]
    lastActiveAt: str


class Awake5(TypedDict):
    because: Literal["no_idle_pause"]


class BackupPolicy(TypedDict, total=False):
    daily: bool
    retentionDays: int


class BackupVolume(TypedDict, total=False):
    name: str
    labels: Dict[str, str]
    retentionDays: int


class _BeginObjectUpload(TypedDict):
    key: str


class BeginObjectUpload(_BeginObjectUpload, total=False):
    contentType: str


class _BeginUnpack(TypedDict):
    path: str


class BeginUnpack(_BeginUnpack, total=False):
    gzip: bool
    user: Literal["sandbox", "root"]


class _BeginUpload(TypedDict):
    path: str
    size: int
    sha256: str


class BeginUpload(_BeginUpload, total=False):
    mode: str


class Cause(TypedDict):
    kind: Literal["request", "api", "hook", "schedule", "socket", "timer"]
    keyId: Optional[str]
    request: str
    port: Optional[int]
    requestId: str


class Checkpoint(TypedDict):
    kind: Literal["checkpoint"]
    sandboxId: str
    name: str
    versions: List[CheckpointVersion]


class CheckpointList(TypedDict):
    data: List[Checkpoint]


class CheckpointVersion(TypedDict):
    version: int
    savedAt: str
    type: Literal["json", "bytes"]
    bytes: int
    sha256: str
    step: Optional[int]
    meta: Dict[str, Any]


class ClosedSocket(TypedDict):
    id: str
    closed: Literal[True]


class CompleteObjectUpload(TypedDict):
    parts: int


class _Context(TypedDict):
    id: str
    language: str
    processId: str
    cwd: str
    state: Literal["starting", "idle", "busy", "dead"]
    startedAt: float


class Context(_Context, total=False):
    replayed: bool


class _CreateAccount(TypedDict):
    name: str


class CreateAccount(_CreateAccount, total=False):
    displayName: str
    plan: Literal["unmetered", "metered", "flat", "trial"]
    quotas: CreateAccountQuotas
    flatMicrosPerMonth: int
    dailyLimitMicros: Optional[int]
    suspended: bool
    creditMicros: int


class CreateAccountQuotas(TypedDict, total=False):
    running: Optional[int]
    vcpus: Optional[int]
    memoryMiB: Optional[int]
    kept: Optional[int]
    createdPerDay: Optional[int]


class CreateContext(TypedDict, total=False):
    id: str
    language: Literal["python"]
    cwd: str
    env: Dict[str, str]


class _CreateDomain(TypedDict):
    domain: str


class CreateDomain(_CreateDomain, total=False):
    port: int


class CreateDrill(TypedDict):
    kill: Literal["guest", "vmm", "host", "edge"]


class _CreateEventEndpoint(TypedDict):
    url: str


class CreateEventEndpoint(_CreateEventEndpoint, total=False):
    events: List[str]
    sandboxes: Optional[CreateEventEndpointSandboxes]
    description: Optional[str]
    enabled: bool


class CreateEventEndpointSandboxes(TypedDict, total=False):
    names: List[str]
    labels: Dict[str, str]


class _CreateHook(TypedDict):
    name: str
    provider: Literal["standard", "github", "stripe", "slack", "telegram", "discord", "bearer", "none"]


class CreateHook(_CreateHook, total=False):
    secret: str
    port: int
    path: str
    mode: Literal["async", "sync"]
    filters: List[str]
    maxBytes: int
    timeoutSeconds: int
    enabled: bool


class CreateKey(TypedDict, total=False):
    access: Literal["full", "read", "sandboxes", "billing"]
    namePrefix: str
    maxSandboxes: int
    expiresAt: str
    dailyLimitMicros: int
    name: str
    ttlSeconds: int
    memberId: str


class CreateLink(TypedDict, total=False):
    name: str
    port: int
    path: str
    ttlSeconds: int
    expiresAt: str
    wake: bool


class _CreateMember(TypedDict):
    name: str
    role: Literal["owner", "admin", "developer", "billing"]


class CreateMember(_CreateMember, total=False):
    email: str


class _CreatePreview(TypedDict):
    port: int


class CreatePreview(_CreatePreview, total=False):
    visibility: Literal["private", "public"]
    ttlSeconds: int
    expiresAt: str


class CreateSandbox(TypedDict, total=False):
    name: str
    getOrCreate: bool
    labels: Dict[str, str]
    env: Dict[str, str]
    image: str
    snapshot: str
    vcpu: int
    memoryMiB: int
    diskMiB: int
    idlePauseSeconds: int
    autoWake: bool
    access: Literal["private", "public"]
    funding: Literal["trial", "paid"]
    pausable: bool
    region: str
    cpu: Literal["shared"]
    maxCostMicros: int
    maxTotalCostMicros: int
    leaseSeconds: int
    timeoutSeconds: int
    onLeaseEnd: Literal["stop", "pause", "delete"]
    onTimeout: Literal["stop", "pause", "delete"]
    persistent: bool
    keepPauses: int
    volumes: List[CreateSandboxVolumesItem]
    wakeRules: List[WakeRule]
    maxWakesPerHour: int
    sockets: List[SocketRule]
    localhostPorts: List[int]
    onBoot: OnBoot
    onWake: OnWake
    services: List[Service]
    network: NetworkInput
    secrets: List[str]


class _CreateSandboxVolumesItem(TypedDict):
    volumeId: str
    path: str


class CreateSandboxVolumesItem(_CreateSandboxVolumesItem, total=False):
    mode: Literal["rw", "snapshot"]


class _CreateSchedule(TypedDict):
    action: ScheduleAction


class CreateSchedule(_CreateSchedule, total=False):
    name: str
    cron: str
    zone: str
    at: str
    enabled: bool
    catchUp: bool


class CreateSession(TypedDict, total=False):
    name: str
    scopes: List[Literal["exec", "files", "files:read", "interpreter", "terminal", "http"]]
    origins: List[str]
    servers: bool
    ttlSeconds: int


class CreateSnapshot(TypedDict, total=False):
    mode: Literal["memory", "disk"]
    name: str
    labels: Dict[str, str]
    retentionDays: int


class CreateVolume(TypedDict, total=False):
    sizeMiB: int
    fromBackup: str
    name: str
    labels: Dict[str, str]
    region: str


class _CreateWatch(TypedDict):
    path: str


class CreateWatch(_CreateWatch, total=False):
    recursive: bool
    events: List[Literal["create", "write", "remove", "rename", "chmod", "access"]]
    include: List[str]
    exclude: List[str]
    batchMs: int
    timeoutMs: int
    maxWatches: int
    id: str


class DeletedCheckpoint(TypedDict):
    name: str
    sandboxId: str
    deleted: Literal[True]


class _DeletedDomain(TypedDict):
    sandboxId: str
    domain: str
    deleted: Literal[True]


class DeletedDomain(_DeletedDomain, total=False):
    replayed: bool


class _DeletedEventEndpoint(TypedDict):
    id: str
    deleted: Literal[True]


class DeletedEventEndpoint(_DeletedEventEndpoint, total=False):
    replayed: bool


class _DeletedHook(TypedDict):
    id: str
    sandboxId: str
    deleted: Literal[True]


class DeletedHook(_DeletedHook, total=False):
    replayed: bool


class DeletedObject(TypedDict):
    key: str
    deleted: bool


class _DeletedSandbox(TypedDict):
    id: str
    kind: Literal["sandbox"]
    name: Optional[str]
    labels: Dict[str, str]
    status: Literal["deleted"]
    state: Literal["starting", "running", "pausing", "paused", "resuming", "stopping", "stopped", "deleted"]
    deletedAt: str
    endedAt: Optional[str]


class DeletedSandbox(_DeletedSandbox, total=False):
    undeleteUntil: Optional[str]
    replayed: bool


class _DeletedSchedule(TypedDict):
    id: str
    sandboxId: str
    deleted: Literal[True]


class DeletedSchedule(_DeletedSchedule, total=False):
    replayed: bool


class _DeletedSecret(TypedDict):
    name: str
    sandboxId: Optional[str]
    deleted: Literal[True]
    enforced: bool


class DeletedSecret(_DeletedSecret, total=False):
    replayed: bool


class DeletedState(TypedDict):
    key: str
    deleted: bool


class DeletedStore(TypedDict):
    name: str
    deleted: Literal[True]


class DeletedTask(TypedDict):
    id: str
    deleted: Literal[True]


Diff = TypedDict(
    "Diff",
    {
        "from": "str",
        "to": "str",
        "data": "List[DiffEntry]",
        "truncated": "bool",
    },
    total=True,
)


class DiffEntry(TypedDict):
    path: str
    change: Literal["added", "removed", "modified"]
    kind: Literal["file", "directory", "symlink", "other"]
    sizeBefore: Optional[int]
    sizeAfter: Optional[int]


class DnsRecord(TypedDict):
    type: Literal["TXT", "CNAME", "A", "AAAA"]
    name: str
    value: str


class _Domain(TypedDict):
    id: str
    kind: Literal["domain"]
    sandboxId: str
    domain: str
    port: int
    state: Literal["pending", "verified", "unverified", "expired"]
    reason: Optional[Literal["txt_missing", "txt_other", "held", "taken_over", "dns_failed"]]
    records: List[DnsRecord]
    url: str
    dns: Optional[DomainPointing]
    checkedAt: Optional[str]
    nextCheckAt: Optional[str]
    verifiedAt: Optional[str]
    missingSince: Optional[str]
    expiresAt: Optional[str]
    createdAt: str


class Domain(_Domain, total=False):
    replayed: bool


class DomainList(TypedDict):
    data: List[Domain]


class DomainPointing(TypedDict):
    cnames: List[str]
    addresses: List[str]
    pointsHere: Optional[bool]
    checkedAt: str


class DrainHost(TypedDict, total=False):
    draining: bool


class _Drill(TypedDict):
    id: str
    kind: Literal["drill"]
    sandboxId: str
    kill: Literal["guest", "vmm", "host", "edge"]
    state: Literal["running", "passed", "lost", "failed", "unavailable"]
    step: Optional[Literal["before", "kill", "after"]]
    reason: Optional[str]
    message: Optional[str]
    createdAt: str
    killedAt: Optional[str]
    endedAt: Optional[str]
    answeredAfterMs: Optional[int]
    before: Optional[DrillBefore]
    after: Optional[DrillAfter]
    lost: List[DrillLostItem]


class Drill(_Drill, total=False):
    replayed: bool


class DrillBefore(TypedDict):
    at: str
    bootId: str
    generation: int
    files: DrillBeforeFiles
    ram: DrillBeforeRam
    checkpoints: List[DrillBeforeCheckpointsItem]
    mirror: Optional[DrillBeforeMirror]
    queues: List[DrillBeforeQueuesItem]
    services: List[DrillBeforeServicesItem]


class DrillBeforeFiles(TypedDict):
    count: int
    bytes: int


class DrillBeforeRam(TypedDict):
    marker: bool
    process: bool


class DrillBeforeCheckpointsItem(TypedDict):
    name: str
    version: int
    step: Optional[int]


class DrillBeforeMirror(TypedDict):
    name: str
    version: int
    step: Optional[int]


class DrillBeforeQueuesItem(TypedDict):
    name: str
    tasks: int


class DrillBeforeServicesItem(TypedDict):
    name: str
    state: str


class DrillAfter(TypedDict):
    at: str
    bootId: str
    generation: int
    files: DrillAfterFiles
    ram: DrillAfterRam
    checkpoints: List[DrillAfterCheckpointsItem]
    mirror: Optional[DrillAfterMirror]
    queues: List[DrillAfterQueuesItem]
    services: List[DrillAfterServicesItem]


class DrillAfterFiles(TypedDict):
    count: int
    bytes: int


class DrillAfterRam(TypedDict):
    marker: bool
    process: bool


class DrillAfterCheckpointsItem(TypedDict):
    name: str
    version: int
    step: Optional[int]


class DrillAfterMirror(TypedDict):
    name: str
    version: int
    step: Optional[int]


class DrillAfterQueuesItem(TypedDict):
    name: str
    tasks: int


class DrillAfterServicesItem(TypedDict):
    name: str
    state: str


class DrillLostItem(TypedDict):
    what: Literal["file", "ram", "checkpoint", "service"]
    name: str
    message: str


class DrillList(TypedDict):
    data: List[Drill]


class Durability(TypedDict):
    state: Literal["cached", "local", "durable", "cold"]
    cachedAt: str
    localAt: Optional[str]
    durableAt: Optional[str]
    coldAt: Optional[str]
    logicalBytes: Optional[int]
    storedBytes: Optional[int]
    ownedBytes: int


class Error(TypedDict):
    error: ErrorError


class _ErrorError(TypedDict):
    code: str
    status: int
    message: str


class ErrorError(_ErrorError, total=False):
    hint: str
    details: Dict[str, Any]
    requestId: str
    retryAfterMs: float


class Event(TypedDict):
    id: str
    subject: str
    sequence: int
    timestamp: str
    sandbox: Optional[EventSandbox]
    type: str
    data: Dict[str, Any]


class EventSandbox(TypedDict):
    id: str
    name: Optional[str]
    labels: Dict[str, str]


class _EventDelivery(TypedDict):
    id: str
    kind: Literal["event-delivery"]
    endpointId: str
    eventId: str
    type: str
    subject: str
    sequence: int
    state: Literal["waiting", "delivered", "dead"]
    attempts: int
    nextAttemptAt: Optional[str]
    createdAt: str
    endedAt: Optional[str]
    expiresAt: Optional[str]
    reason: Optional[str]
    tries: List[EventDeliveryTriesItem]
    lastAnswer: Optional[str]


class EventDelivery(_EventDelivery, total=False):
    event: Event


class EventDeliveryTriesItem(TypedDict):
    at: str
    ms: int
    status: Optional[int]
    reason: Optional[str]


class EventDeliveryList(TypedDict):
    data: List[EventDelivery]
    nextCursor: Optional[str]


class _EventEndpoint(TypedDict):
    id: str
    kind: Literal["event-endpoint"]
    url: str
    events: List[str]
    sandboxes: Optional[EventEndpointSandboxes]
    description: Optional[str]
    enabled: bool
    disabledReason: Optional[Literal["gone", "failing"]]
    disabledAt: Optional[str]
    failingSince: Optional[str]
    lastSuccessAt: Optional[str]
    previousSecretUntil: Optional[str]
    waiting: int
    dead: int
    createdAt: str


class EventEndpoint(_EventEndpoint, total=False):
    replayed: bool


class EventEndpointSandboxes(TypedDict, total=False):
    names: List[str]
    labels: Dict[str, str]


class EventEndpointList(TypedDict):
    data: List[EventEndpoint]


class EventList(TypedDict):
    data: List[Event]
    nextAfter: int
    hasMore: bool


class ExecRequest(TypedDict, total=False):
    command: str
    argv: List[str]
    cwd: str
    env: Dict[str, str]
    stdin: str
    stdinBase64: str
    timeoutMs: int
    stream: bool


class _ExecResult(TypedDict):
    exitCode: Optional[int]
    stdout: str
    stderr: str
    timedOut: bool
    stdoutTruncated: bool
    stderrTruncated: bool
    durationMs: float
    processId: str


class ExecResult(_ExecResult, total=False):
    replayed: bool


class _Execution(TypedDict):
    id: str
    contextId: str
    language: str
    executionCount: Optional[int]
    status: Literal["ok", "error", "interrupted", "timeout", "lost"]
    stdout: str
    stderr: str
    results: List[ExecutionResultsItem]
    error: Optional[ExecutionError]
    overflow: List[ExecutionOverflowItem]
    durationMs: float
    contextStarted: bool
    lostBytes: int


class Execution(_Execution, total=False):
    replayed: bool


class ExecutionResultsItem(TypedDict):
    main: bool
    data: Dict[str, Any]
    refs: Dict[str, Any]


class ExecutionError(TypedDict):
    name: str
    value: str
    traceback: str


class ExecutionOverflowItem(TypedDict):
    stream: str
    path: Optional[str]
    bytes: int
    dropped: int


class ExtendSandbox(TypedDict):
    seconds: int


class ExtendSnapshot(TypedDict):
    retentionDays: int


class _ExtendTask(TypedDict):
    id: str
    lease: str


class ExtendTask(_ExtendTask, total=False):
    leaseSeconds: int


class _FileEntry(TypedDict):
    name: str
    path: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    mode: str
    modifiedAt: str


class FileEntry(_FileEntry, total=False):
    uid: int
    gid: int
    owner: str
    group: str
    symlinkTarget: str


class _FileEvent(TypedDict):
    type: Literal["create", "write", "remove", "rename", "chmod", "access"]
    path: str
    isDir: bool


class FileEvent(_FileEvent, total=False):
    oldPath: str
    count: int


class FileWatch(TypedDict):
    id: str
    path: str
    cursor: int
    processId: str
    state: Literal["running", "ended"]
    startedAt: float


class FileWritten(TypedDict):
    path: str
    size: int
    sha256: str


class ForgetMatching(TypedDict):
    filter: MemoryFilter
    confirm: Literal[True]


class ForgetMemories(TypedDict):
    ids: List[str]


ForgetMemory = Union["ForgetMemories", "ForgetMatching"]


class ForgottenMemory(TypedDict):
    forgotten: int


class ForkSandbox(TypedDict, total=False):
    count: int
    name: str
    labels: Dict[str, str]
    keepSnapshot: bool
    funding: Literal["trial", "paid"]


class _Forks(TypedDict):
    sandboxes: List[Sandbox]
    frozenMs: Optional[float]


class Forks(_Forks, total=False):
    replayed: bool


class FreezeHook(TypedDict, total=False):
    command: Union[str, List[str]]
    http: FreezeHookHttp
    timeoutSeconds: int
    required: bool


class _FreezeHookHttp(TypedDict):
    path: str
    port: int


class FreezeHookHttp(_FreezeHookHttp, total=False):
    method: Literal["GET", "POST", "PUT", "DELETE"]
    body: str
    headersEnv: Dict[str, str]


class Grant(TypedDict):
    agent: str
    access: Literal["read", "write"]


class HeldSocket(TypedDict):
    id: str
    sandboxId: str
    state: Literal["attached", "detached"]
    since: str
    port: int
    path: str
    protocol: Optional[str]
    keyId: Optional[str]
    resumed: int
    framesIn: int
    framesOut: int
    bytesIn: int
    bytesOut: int
    buffered: int
    lastMessageAt: Optional[str]
    waitsFor: Optional[str]


class HeldSocketList(TypedDict):
    data: List[HeldSocket]


class History(TypedDict):
    data: List[HistoryPoint]


class HistoryPoint(TypedDict):
    point: str
    generation: int
    mode: Literal["memory", "disk"]
    savedAt: str
    durableAt: Optional[str]
    storedBytes: int
    current: bool


class HoldSandbox(TypedDict):
    name: str
    seconds: int


class _Hook(TypedDict):
    id: str
    kind: Literal["hook"]
    sandboxId: str
    name: str
    provider: Literal["standard", "github", "stripe", "slack", "telegram", "discord", "bearer", "none"]
    port: int
    path: str
    mode: Literal["async", "sync"]
    filters: List[str]
    maxBytes: int
    timeoutSeconds: int
    enabled: bool
    disabledReason: Optional[Literal["gone"]]
    hasSecret: bool
    previousSecretUntil: Optional[str]
    waiting: int
    dead: int
    lastEventAt: Optional[str]
    createdAt: str


class Hook(_Hook, total=False):
    replayed: bool


class _HookEvent(TypedDict):
    id: str
    kind: Literal["hook-event"]
    sandboxId: str
    hookId: Optional[str]
    state: Literal["waiting", "delivered", "dead", "ignored"]
    type: Optional[str]
    providerId: Optional[str]
    bytes: int
    contentType: Optional[str]
    attempts: int
    nextAttemptAt: Optional[str]
    receivedAt: str
    endedAt: Optional[str]
    expiresAt: Optional[str]
    timeline: List[HookEventTimelineItem]


class HookEvent(_HookEvent, total=False):
    body: Optional[HookEventBody]
    replayed: bool


class _HookEventTimelineItem(TypedDict):
    at: str
    what: Literal["received", "attempt", "delivered", "dead", "ignored", "replayed"]


class HookEventTimelineItem(_HookEventTimelineItem, total=False):
    status: Optional[int]
    ms: int
    woken: bool
    reason: str
    nextAt: str


class HookEventBody(TypedDict):
    encoding: Literal["text", "base64"]
    data: str


class HookEventList(TypedDict):
    data: List[HookEvent]
    nextCursor: Optional[str]


class HookList(TypedDict):
    data: List[Hook]


class HookResult(TypedDict):
    generation: int
    startedAt: str
    endedAt: Optional[str]
    exitCode: Optional[int]
    timedOut: bool
    stdout: str
    stderr: str


class _Host(TypedDict):
    hostId: str
    url: str
    accelerator: Literal["kvm", "tcg", "fake"]
    acceleratorReason: str
    qemuVersion: Optional[str]
    images: List[str]
    vcpus: int
    memoryMiB: int
    freeMemoryMiB: int
    freeDiskMiB: int
    running: int
    paused: int
    lastSeenAt: str
    live: bool
    draining: bool


class Host(_Host, total=False):
    loadAverage: float
    compatibility: str
    unstored: int
    session: str
    lost: bool


class ImportedMemory(TypedDict):
    lines: int
    added: int
    known: int


class Key(TypedDict):
    id: str
    name: str
    access: Literal["full", "read", "sandboxes", "billing"]
    namePrefix: Optional[str]
    maxSandboxes: Optional[int]
    dailyLimitMicros: Optional[int]
    spentTodayMicros: int
    memberId: Optional[str]
    createdAt: str
    expiresAt: Optional[str]
    revokedAt: Optional[str]


class _LeasedTask(TypedDict):
    id: str
    kind: Literal["task"]
    queue: str
    state: Literal["ready", "delayed", "leased", "dead", "done"]
    payload: Any
    attempts: int
    maxAttempts: int
    putAt: str
    by: str
    readyAt: Optional[str]
    lastError: Optional[str]
    lease: str
    leaseUntil: str


class LeasedTask(_LeasedTask, total=False):
    replayed: bool


class LeasedTasks(TypedDict):
    data: List[LeasedTask]


class _Link(TypedDict):
    id: str
    sandboxId: str
    name: Optional[str]
    port: int
    path: str
    wake: bool
    state: Literal["live", "expired", "revoked"]
    createdAt: str
    expiresAt: str
    revokedAt: Optional[str]
    lastUsedAt: Optional[str]
    url: str


class Link(_Link, total=False):
    token: str
    urlWithToken: str
    uses: List[LinkUse]
    replayed: bool


class LinkList(TypedDict):
    data: List[Link]


class LinkUse(TypedDict):
    at: str
    request: str
    woke: bool


class McpCatalog(TypedDict):
    data: List[McpCatalogEntry]


class McpCatalogEntry(TypedDict):
    id: str
    title: str
    description: str
    license: str
    source: str
    version: str
    env: List[McpCatalogEntryEnvItem]
    options: List[McpCatalogEntryOptionsItem]
    egress: List[str]
    checked: str


class _McpCatalogEntryEnvItem(TypedDict):
    name: str
    description: str
    required: bool
    secret: bool


class McpCatalogEntryEnvItem(_McpCatalogEntryEnvItem, total=False):
    hosts: List[str]


class McpCatalogEntryOptionsItem(TypedDict):
    name: str
    description: str
    default: Optional[str]


class McpGateway(TypedDict):
    running: bool
    port: Optional[int]
    url: Optional[str]
    token: Optional[str]
    headers: Dict[str, str]
    urlExpiresAt: Optional[str]
    servers: List[McpGatewayServersItem]
    warnings: List[str]


class McpGatewayServersItem(TypedDict):
    name: str
    status: Literal["installing", "ready", "failed", "asleep"]
    message: Optional[str]
    id: Optional[str]
    url: str
    restarts: Optional[int]
    envNames: List[str]
    secrets: Dict[str, str]


McpServer = Union["McpServer1", "McpServer2"]


class _McpServer1(TypedDict):
    id: str


class McpServer1(_McpServer1, total=False):
    name: str
    options: Dict[str, str]
    env: Dict[str, str]
    secrets: Dict[str, str]


class _McpServer2(TypedDict):
    name: str
    command: List[str]


class McpServer2(_McpServer2, total=False):
    cwd: str
    env: Dict[str, str]
    secrets: Dict[str, str]


class _Me(TypedDict):
    orgId: str
    principalId: str
    credentialId: Optional[str]
    apiVersion: str
    orgName: str
    role: Literal["owner", "admin", "developer", "billing"]


class Me(_Me, total=False):
    access: Literal["full", "read", "sandboxes", "billing"]
    namePrefix: Optional[str]


class Member(TypedDict):
    id: str
    name: str
    email: Optional[str]
    role: Literal["owner", "admin", "developer", "billing"]
    createdAt: str


class MemoryAuthor(TypedDict):
    kind: Literal["sandbox", "key"]
    id: str
    name: Optional[str]


class _MemoryEntry(TypedDict):
    id: str
    text: str
    metadata: Dict[str, Optional[Union[str, float, bool]]]
    tags: List[str]
    author: MemoryAuthor
    createdAt: str
    updatedAt: str
    updatedBy: Optional[MemoryAuthor]
    version: int
    dimension: Optional[int]


class MemoryEntry(_MemoryEntry, total=False):
    embedding: List[float]
    origin: MemoryEntryOrigin
    replayed: bool


class MemoryEntryOrigin(TypedDict):
    id: str
    author: MemoryAuthor
    createdAt: str


class MemoryFilter(TypedDict, total=False):
    tags: List[str]
    author: str
    since: str
    until: str
    metadata: Dict[str, Optional[Union[str, float, bool]]]


class _MemoryHit(TypedDict):
    id: str
    text: str
    metadata: Dict[str, Optional[Union[str, float, bool]]]
    tags: List[str]
    author: MemoryAuthor
    createdAt: str
    updatedAt: str
    updatedBy: Optional[MemoryAuthor]
    version: int
    dimension: Optional[int]
    score: float
    snippet: str


class MemoryHit(_MemoryHit, total=False):
    embedding: List[float]
    origin: MemoryHitOrigin
    replayed: bool
    similarity: float


class MemoryHitOrigin(TypedDict):
    id: str
    author: MemoryAuthor
    createdAt: str


class MemoryHits(TypedDict):
    data: List[MemoryHit]
    mode: Literal["text", "vector", "hybrid"]


class _MemoryLine(TypedDict):
    id: str
    text: str
    metadata: Dict[str, Optional[Union[str, float, bool]]]
    tags: List[str]
    author: MemoryAuthor
    createdAt: str
    updatedAt: str
    updatedBy: Optional[MemoryAuthor]
    version: int
    dimension: Optional[int]


class MemoryLine(_MemoryLine, total=False):
    embedding: List[float]
    origin: MemoryLineOrigin
    replayed: bool


class MemoryLineOrigin(TypedDict):
    id: str
    author: MemoryAuthor
    createdAt: str


class MemoryList(TypedDict):
    data: List[MemoryEntry]
    nextCursor: Optional[str]


class MemoryUsage(TypedDict):
    entries: int
    bytes: int
    entriesMax: int
    bytesMax: int
    dimension: Optional[int]


class _NackTask(TypedDict):
    id: str
    lease: str


class NackTask(_NackTask, total=False):
    delaySeconds: int
    error: str


class _Network(TypedDict):
    sandboxId: str
    internet: bool
    allow: List[str]
    deny: List[str]
    connect: List[str]
    version: int
    enforced: bool
    enforcedVersion: Optional[int]
    ports: List[int]
    connectAllowed: bool
    connectReason: str
    forbiddenPorts: List[int]
    updatedAt: Optional[str]
    bytesOut: float
    bytesIn: float
    refusals: List[NetworkRefusalsItem]


class Network(_Network, total=False):
    replayed: bool


class NetworkRefusalsItem(TypedDict):
    rule: str
    target: str
    count: int
    lastAt: str


class NetworkInput(TypedDict, total=False):
    internet: bool
    allow: List[str]
    deny: List[str]


class _NetworkRules(TypedDict):
    internet: bool


class NetworkRules(_NetworkRules, total=False):
    allow: List[Any]
    deny: List[Any]


class NewAccount(TypedDict):
    name: str
    displayName: str
    plan: Literal["unmetered", "metered", "flat", "trial"]
    suspended: bool
    quotas: NewAccountQuotas
    used: NewAccountUsed
    flatMicrosPerMonth: Optional[int]
    dailyLimitMicros: Optional[int]
    spentTodayMicros: int
    creditedMicros: int
    spentMicros: int
    heldMicros: int
    availableMicros: Optional[int]
    unpaidSince: Optional[str]
    unpaidDeletesAt: Optional[str]
    createdAt: str
    key: str


class NewAccountQuotas(TypedDict):
    running: Optional[int]
    vcpus: Optional[int]
    memoryMiB: Optional[int]
    kept: Optional[int]
    createdPerDay: Optional[int]


class NewAccountUsed(TypedDict):
    running: int
    vcpus: int
    memoryMiB: int
    kept: int
    createdToday: int


class _NewEventEndpoint(TypedDict):
    id: str
    kind: Literal["event-endpoint"]
    url: str
    events: List[str]
    sandboxes: Optional[NewEventEndpointSandboxes]
    description: Optional[str]
    enabled: bool
    disabledReason: Optional[Literal["gone", "failing"]]
    disabledAt: Optional[str]
    failingSince: Optional[str]
    lastSuccessAt: Optional[str]
    previousSecretUntil: Optional[str]
    waiting: int
    dead: int
    createdAt: str
    secret: Optional[str]


class NewEventEndpoint(_NewEventEndpoint, total=False):
    replayed: bool


class NewEventEndpointSandboxes(TypedDict, total=False):
    names: List[str]
    labels: Dict[str, str]


class _NewHook(TypedDict):
    id: str
    kind: Literal["hook"]
    sandboxId: str
    name: str
    provider: Literal["standard", "github", "stripe", "slack", "telegram", "discord", "bearer", "none"]
    port: int
    path: str
    mode: Literal["async", "sync"]
    filters: List[str]
    maxBytes: int
    timeoutSeconds: int
    enabled: bool
    disabledReason: Optional[Literal["gone"]]
    hasSecret: bool
    previousSecretUntil: Optional[str]
    waiting: int
    dead: int
    lastEventAt: Optional[str]
    createdAt: str
    url: Optional[str]
    secret: Optional[str]
    deliverySecret: Optional[str]


class NewHook(_NewHook, total=False):
    replayed: bool


class NewHost(TypedDict):
    hostKey: str
    controlSecret: str
    ticketSecret: str
    hostId: str


class NewKey(TypedDict):
    id: str
    name: str
    access: Literal["full", "read", "sandboxes", "billing"]
    namePrefix: Optional[str]
    maxSandboxes: Optional[int]
    dailyLimitMicros: Optional[int]
    spentTodayMicros: int
    memberId: Optional[str]
    createdAt: str
    expiresAt: Optional[str]
    revokedAt: Optional[str]
    key: str


class _NewMemory(TypedDict):
    text: str


class NewMemory(_NewMemory, total=False):
    metadata: Dict[str, Optional[Union[str, float, bool]]]
    tags: List[str]
    embedding: List[float]
    idempotencyId: str


class NewSession(TypedDict):
    id: str
    sandboxId: str
    name: Optional[str]
    scopes: List[Literal["exec", "files", "files:read", "interpreter", "terminal", "http"]]
    origins: List[str]
    servers: bool
    state: Literal["active", "expired", "revoked"]
    createdBy: str
    createdAt: str
    expiresAt: str
    revokedAt: Optional[str]
    lastUsedAt: Optional[str]
    token: str
    apiUrl: str
    url: str


class Notice(TypedDict):
    kind: Literal["retention_ends", "credit_low", "credit_gone", "key_expires", "endpoint_disabled"]
    message: str
    at: Optional[str]
    sandboxId: Optional[str]
    name: Optional[str]


class ObjectList(TypedDict):
    data: List[StoredObject]
    prefixes: List[str]
    nextCursor: Optional[str]


class ObjectPart(TypedDict):
    part: int
    bytes: int
    sha256: str


class ObjectUpload(TypedDict):
    id: str
    key: str
    contentType: str
    createdAt: str
    expiresAt: str
    parts: List[ObjectPart]


class _OnBoot(TypedDict):
    command: Union[str, List[str]]


class OnBoot(_OnBoot, total=False):
    cwd: str
    env: Dict[str, str]
    user: str
    timeoutSeconds: int


class _OnWake(TypedDict):
    command: Union[str, List[str]]


class OnWake(_OnWake, total=False):
    cwd: str
    env: Dict[str, str]
    user: str
    timeoutSeconds: int
    blocking: bool


OutputEvent = Union["OutputEvent1", "OutputEvent2", "OutputEvent3", "OutputEvent4", "OutputEvent5", "OutputEvent6", "OutputEvent7"]


class OutputEvent1(TypedDict):
    type: Literal["start"]
    processId: str


class _OutputEvent2(TypedDict):
    type: Literal["stdout"]
    data: str
    offset: int


class OutputEvent2(_OutputEvent2, total=False):
    base64: str


class _OutputEvent3(TypedDict):
    type: Literal["stderr"]
    data: str
    offset: int


class OutputEvent3(_OutputEvent3, total=False):
    base64: str


class OutputEvent4(TypedDict):
    type: Literal["truncated"]
    droppedBytes: int
    resumeAt: int


class OutputEvent5(TypedDict):
    type: Literal["continue"]
    processId: str
    cursor: int


class OutputEvent6(TypedDict):
    type: Literal["exit"]
    exitCode: Optional[int]
    state: Literal["running", "exited", "killed", "timed_out", "unknown"]
    timedOut: bool
    durationMs: float


class OutputEvent7(TypedDict):
    type: Literal["error"]
    error: OutputEvent7Error


class _OutputEvent7Error(TypedDict):
    code: str
    message: str


class OutputEvent7Error(_OutputEvent7Error, total=False):
    status: int
    requestId: str


class OutputPage(TypedDict):
    chunks: List[OutputPageChunksItem]
    nextCursor: int
    truncated: bool
    process: Optional[OutputPageProcess]


class _OutputPageChunksItem(TypedDict):
    stream: Literal["stdout", "stderr"]
    text: str
    offset: int


class OutputPageChunksItem(_OutputPageChunksItem, total=False):
    base64: str


class OutputPageProcess(TypedDict):
    state: Literal["running", "exited", "killed", "timed_out", "unknown"]
    exitCode: Optional[int]


PresetId = str


class _Preview(TypedDict):
    id: str
    sandboxId: str
    port: int
    visibility: Literal["private", "public"]
    url: str
    token: Optional[str]
    tokenExpiresAt: Optional[str]
    urlWithToken: Optional[str]
    disabled: bool
    embedOrigins: None
    createdAt: str


class Preview(_Preview, total=False):
    hint: str


class _Process(TypedDict):
    id: str
    kind: Literal["process"]
    state: Literal["running", "exited", "killed", "timed_out", "unknown"]
    exitCode: Optional[int]
    command: str
    cwd: str
    pty: bool
    stdinOpen: bool
    stdinOffset: int
    outputEncoding: Literal["utf8", "base64"]
    startedAt: str
    endedAt: Optional[str]
    timeoutMs: Optional[int]
    outputBytes: int
    firstOffset: int


class Process(_Process, total=False):
    replayed: bool


class _PutSecret(TypedDict):
    value: str


class PutSecret(_PutSecret, total=False):
    mode: Literal["broker", "placeholder", "env"]
    provider: Literal["anthropic", "openai", "gemini", "openrouter", "github"]
    hosts: List[str]
    header: str
    format: str
    rules: List[SecretRule]
    envName: str


class PutStore(TypedDict, total=False):
    kinds: List[Literal["memory", "state"]]
    grants: List[Grant]


class _PutTask(TypedDict):
    payload: Any


class PutTask(_PutTask, total=False):
    delaySeconds: int
    maxAttempts: int


class Queue(TypedDict):
    name: str
    ready: int
    delayed: int
    leased: int
    dead: int
    oldestPutAt: Optional[str]


class QueueList(TypedDict):
    data: List[Queue]


class Receipt(TypedDict):
    id: str
    kind: Literal["receipt"]
    sandboxId: str
    state: Literal["waiting", "delivered", "dead", "ignored"]
    attempts: int
    receivedAt: str
    endedAt: Optional[str]
    timeline: List[ReceiptTimelineItem]
    response: Optional[ReceiptResponse]


class _ReceiptTimelineItem(TypedDict):
    at: str
    what: Literal["received", "attempt", "delivered", "dead", "ignored", "replayed"]


class ReceiptTimelineItem(_ReceiptTimelineItem, total=False):
    status: Optional[int]
    ms: int
    woken: bool
    reason: str
    nextAt: str


class ReceiptResponse(TypedDict):
    status: int
    headers: List[List[Any]]
    body: ReceiptResponseBody


class ReceiptResponseBody(TypedDict):
    encoding: Literal["text", "base64"]
    data: str


class RedeliverDead(TypedDict, total=False):
    since: str


class Redelivered(TypedDict):
    redelivered: int


class ReleaseSandbox(TypedDict):
    name: str


class Replayed(TypedDict):
    replayed: int


class ResizeTerminal(TypedDict):
    cols: int
    rows: int


class ResizeVolume(TypedDict):
    sizeMiB: int


class Resume(TypedDict):
    bootKind: Optional[Literal["created", "restored", "booted"]]
    generation: int
    memoryRestored: Optional[bool]
    bootedAt: Optional[str]
    onBoot: Optional[HookResult]
    onWake: Optional[HookResult]
    services: List[ServiceStatus]
    checkpoint: Optional[ResumeCheckpoint]
    queue: Optional[ResumeQueue]
    unfinished: bool


class ResumeCheckpoint(TypedDict):
    name: str
    version: int
    step: Optional[int]
    savedAt: str


class ResumeQueue(TypedDict):
    waiting: int
    leased: int
    dead: int


class RetriedTasks(TypedDict):
    retried: int


class RevokeStore(TypedDict):
    agent: str


class Rollback(TypedDict):
    point: str


class RotateEventEndpoint(TypedDict, total=False):
    overlapSeconds: int


class RotateHook(TypedDict, total=False):
    what: Literal["secret", "deliverySecret", "url"]
    secret: str
    overlapSeconds: int


class _RunCode(TypedDict):
    code: str


class RunCode(_RunCode, total=False):
    language: Literal["python"]
    context: str
    timeoutMs: int
    interruptOnDisconnect: bool
    stream: bool


RunEvent = Union["RunEvent1", "RunEvent2", "RunEvent3", "RunEvent4", "RunEvent5", "RunEvent6", "RunEvent7", "RunEvent8"]


class RunEvent1(TypedDict):
    k: Literal["start"]
    n: int


class RunEvent2(TypedDict):
    k: Literal["stdout"]
    text: str


class RunEvent3(TypedDict):
    k: Literal["stderr"]
    text: str


class RunEvent4(TypedDict):
    main: bool
    data: Dict[str, Any]
    refs: Dict[str, Any]
    k: Literal["result"]


class RunEvent5(TypedDict):
    name: str
    value: str
    traceback: str
    k: Literal["error"]


class RunEvent6(TypedDict):
    k: Literal["end"]


class RunEvent7(TypedDict):
    k: Literal["execution"]
    execution: Execution


class _RunEvent8(TypedDict):
    k: Literal["failure"]
    code: str
    message: str
    hint: Optional[str]


class RunEvent8(_RunEvent8, total=False):
    status: int
    requestId: str


class RunSql(TypedDict):
    statements: List[RunSqlStatementsItem]


class _RunSqlStatementsItem(TypedDict):
    sql: str


class RunSqlStatementsItem(_RunSqlStatementsItem, total=False):
    params: List[Optional[Union[float, str, bool, RunSqlStatementsItemParamsItem]]]


class RunSqlStatementsItemParamsItem(TypedDict):
    base64: str


class _Sandbox(TypedDict):
    id: str
    kind: Literal["sandbox"]
    name: Optional[str]
    label: str
    labels: Dict[str, str]
    state: Literal["starting", "running", "pausing", "paused", "resuming", "stopping", "stopped", "deleted"]
    status: Literal["pending", "active", "paused", "stopping", "stopped", "deleted"]
    generation: int
    region: str
    funding: Literal["paid"]
    image: str
    vcpu: int
    memoryMiB: int
    diskMiB: int
    cpu: Literal["shared"]
    cpuFloorMillis: int
    pausable: Literal[True]
    timeoutSeconds: int
    idlePauseSeconds: int
    autoWake: bool
    persistent: bool
    access: Literal["private", "public"]
    url: str
    retentionDays: int
    onLeaseEnd: Literal["stop", "pause", "delete"]
    onTimeout: Literal["stop", "pause", "delete"]
    createdAt: str
    readyAt: Optional[str]
    lastActiveAt: Optional[str]
    expiresAt: str
    endsAt: Optional[str]
    endedAt: Optional[str]
    stopReason: Optional[Literal["idle", "requested", "time_limit", "paused_expired", "startup_failed", "pause_failed", "wake_failed", "vm_crashed", "host_lost", "host_stopped", "insufficient_funds", "spending_limit", "lifetime_cap", "operator_stopped"]]
    lastError: Optional[str]
    pausedAt: Optional[str]
    pausedExpiresAt: Optional[str]
    memoryRestored: Optional[bool]
    diskKept: bool
    chargedMicros: int
    heldMicros: int


class Sandbox(_Sandbox, total=False):
    envNames: List[str]
    holds: List[SandboxHoldsItem]
    keepPauses: int
    volumes: List[SandboxVolumesItem]
    wakeRules: List[WakeRule]
    maxWakesPerHour: Optional[int]
    sockets: List[SocketRule]
    localhostPorts: List[int]
    onBoot: Optional[ShownOnBoot]
    onWake: Optional[ShownOnWake]
    services: List[ShownService]
    network: NetworkRules
    secrets: List[str]
    lastPauseError: Optional[str]
    wakesAt: Optional[str]
    durability: Optional[Durability]
    maxTotalCostMicros: Optional[int]
    reused: bool
    replayed: bool


class SandboxHoldsItem(TypedDict):
    name: str
    expiresAt: str


class SandboxVolumesItem(TypedDict):
    attachmentId: str
    volumeId: str
    path: str
    mode: Literal["rw", "snapshot"]
    sizeMiB: int


class SandboxChanges(TypedDict):
    data: List[SandboxChangesDataItem]
    nextAfter: int
    hasMore: bool


class SandboxChangesDataItem(TypedDict):
    label: str
    sandbox: Optional[Sandbox]


class SandboxList(TypedDict):
    data: List[Sandbox]
    nextCursor: Optional[str]


class _Schedule(TypedDict):
    id: str
    kind: Literal["schedule"]
    sandboxId: str
    name: Optional[str]
    cron: Optional[str]
    zone: str
    at: Optional[str]
    action: ScheduleAction
    enabled: bool
    catchUp: bool
    next: List[str]
    lastRun: Optional[ScheduleRun]
    createdAt: str
    updatedAt: str


class Schedule(_Schedule, total=False):
    replayed: bool


ScheduleAction = Union["ScheduleAction1", "ScheduleAction2", "ScheduleAction3", "ScheduleAction4"]


class _ScheduleAction1(TypedDict):
    kind: Literal["command"]


class ScheduleAction1(_ScheduleAction1, total=False):
    command: str
    argv: List[str]
    cwd: str
    env: Dict[str, str]
    timeoutSeconds: int


class _ScheduleAction2(TypedDict):
    kind: Literal["request"]


class ScheduleAction2(_ScheduleAction2, total=False):
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    port: int
    path: str
    headers: Dict[str, str]
    body: str
    timeoutSeconds: int


class ScheduleAction3(TypedDict):
    kind: Literal["drill"]
    kill: Literal["guest", "vmm", "host", "edge"]


class ScheduleAction4(TypedDict):
    kind: Literal["wake"]


class ScheduleList(TypedDict):
    data: List[Schedule]


class ScheduleOutput(TypedDict):
    stdout: Optional[ScheduleOutputStdout]
    stderr: Optional[ScheduleOutputStderr]
    body: Optional[ScheduleOutputBody]
    bytes: int
    truncated: bool


class ScheduleOutputStdout(TypedDict):
    encoding: Literal["text", "base64"]
    data: str


class ScheduleOutputStderr(TypedDict):
    encoding: Literal["text", "base64"]
    data: str


class ScheduleOutputBody(TypedDict):
    encoding: Literal["text", "base64"]
    data: str


class _ScheduleRun(TypedDict):
    id: str
    kind: Literal["schedule-run"]
    sandboxId: str
    scheduleId: str
    action: Literal["command", "request", "drill", "wake"]
    manual: bool
    caughtUp: bool
    scheduledAt: str
    startedAt: Optional[str]
    endedAt: Optional[str]
    state: Literal["running", "succeeded", "failed", "skipped"]
    reason: Optional[str]
    attempts: int
    nextAttemptAt: Optional[str]
    exitCode: Optional[int]
    status: Optional[int]
    wasAsleep: Optional[bool]
    wakeMs: Optional[int]
    processId: Optional[str]


class ScheduleRun(_ScheduleRun, total=False):
    replayed: bool
    output: Optional[ScheduleOutput]


class ScheduleRunList(TypedDict):
    data: List[ScheduleRun]
    nextCursor: Optional[str]


class SearchMemory(TypedDict, total=False):
    query: str
    embedding: List[float]
    filter: MemoryFilter
    limit: int


class Secret(TypedDict):
    name: str
    kind: Literal["secret"]
    sandboxId: Optional[str]
    mode: Literal["broker", "placeholder", "env"]
    hosts: List[str]
    header: Optional[str]
    format: Optional[str]
    rules: List[SecretRulesItem]
    envName: Optional[str]
    placeholder: Optional[str]
    version: int
    valueBytes: int
    createdAt: str
    updatedAt: str
    lastUsedAt: Optional[str]


class SecretRulesItem(TypedDict, total=False):
    methods: List[str]
    paths: List[str]


class SecretList(TypedDict):
    data: List[Secret]


class SecretRule(TypedDict, total=False):
    methods: List[str]
    paths: List[str]


class _Service(TypedDict):
    name: str
    command: Union[str, List[str]]


class Service(_Service, total=False):
    cwd: str
    env: Dict[str, str]
    user: str
    port: int
    ready: ServiceReady
    restart: Literal["always", "on-failure", "never"]
    stopSignal: Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGKILL"]
    stopSeconds: int
    freeze: FreezeHook
    thaw: ThawHook


class _ServiceReady(TypedDict):
    port: int


class ServiceReady(_ServiceReady, total=False):
    path: str
    timeoutSeconds: int


class ServiceLogs(TypedDict):
    name: str
    chunks: List[ServiceLogsChunksItem]
    truncated: bool


class ServiceLogsChunksItem(TypedDict):
    stream: Literal["stdout", "stderr"]
    text: str


class ServiceStatus(TypedDict):
    name: str
    state: Literal["pending", "starting", "ready", "waiting", "ended", "failed", "stopped"]
    pid: Optional[int]
    port: Optional[int]
    restarts: int
    startedAt: Optional[str]
    readyAt: Optional[str]
    late: bool
    lastExit: Optional[ServiceStatusLastExit]


class ServiceStatusLastExit(TypedDict):
    at: str
    exitCode: Optional[int]
    signal: Optional[str]


class Session(TypedDict):
    id: str
    sandboxId: str
    name: Optional[str]
    scopes: List[Literal["exec", "files", "files:read", "interpreter", "terminal", "http"]]
    origins: List[str]
    servers: bool
    state: Literal["active", "expired", "revoked"]
    createdBy: str
    createdAt: str
    expiresAt: str
    revokedAt: Optional[str]
    lastUsedAt: Optional[str]


class SessionList(TypedDict):
    data: List[Session]


class _SetNetwork(TypedDict):
    internet: bool


class SetNetwork(_SetNetwork, total=False):
    allow: List[str]
    deny: List[str]
    connect: List[str]


class SetRetention(TypedDict):
    days: Optional[int]


class _ShownOnBoot(TypedDict):
    command: Union[str, List[str]]
    envNames: List[str]


class ShownOnBoot(_ShownOnBoot, total=False):
    cwd: str
    user: str
    timeoutSeconds: int


class _ShownOnWake(TypedDict):
    command: Union[str, List[str]]
    envNames: List[str]


class ShownOnWake(_ShownOnWake, total=False):
    cwd: str
    user: str
    timeoutSeconds: int
    blocking: bool


class _ShownService(TypedDict):
    name: str
    command: Union[str, List[str]]
    envNames: List[str]


class ShownService(_ShownService, total=False):
    cwd: str
    user: str
    port: int
    ready: ShownServiceReady
    restart: Literal["always", "on-failure", "never"]
    stopSignal: Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGKILL"]
    stopSeconds: int
    freeze: FreezeHook
    thaw: ThawHook


class _ShownServiceReady(TypedDict):
    port: int


class ShownServiceReady(_ShownServiceReady, total=False):
    path: str
    timeoutSeconds: int


class _SignObject(TypedDict):
    key: str


class SignObject(_SignObject, total=False):
    method: Literal["GET", "PUT"]
    expiresSeconds: int
    contentType: str
    maxBytes: int


class SignalProcess(TypedDict):
    signal: Literal["SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]


class SignedObject(TypedDict):
    url: str
    method: Literal["GET", "PUT"]
    key: str
    expiresAt: str


class _Snapshot(TypedDict):
    id: str
    kind: Literal["snapshot"]
    mode: Literal["memory", "disk"]
    state: Literal["capturing", "ready", "failed", "deleting", "deleted"]
    status: Literal["capturing", "ready", "failed", "deleting", "deleted"]
    name: Optional[str]
    labels: Dict[str, str]
    sourceSandboxId: str
    shape: SnapshotShape
    retentionDays: int
    compressionPending: bool
    storedBytes: int
    meteredBytes: int
    backedUp: bool
    durability: SnapshotDurability
    frozenMs: Optional[float]
    error: Optional[str]
    createdAt: str
    readyAt: Optional[str]
    expiresAt: Optional[str]


class Snapshot(_Snapshot, total=False):
    volumes: List[SnapshotVolumesItem]
    replayed: bool


class SnapshotShape(TypedDict):
    image: str
    vcpu: int
    memoryMiB: int
    diskMiB: int


class SnapshotDurability(TypedDict):
    state: Literal["none", "pending", "durable", "failed"]
    durableAt: Optional[str]
    storedBytes: Optional[int]


class SnapshotVolumesItem(TypedDict):
    path: str
    mode: Literal["rw", "snapshot"]


class SnapshotList(TypedDict):
    data: List[Snapshot]
    nextCursor: Optional[str]


class _SocketRule(TypedDict):
    path: str


class SocketRule(_SocketRule, total=False):
    port: int
    keep: bool
    announce: bool
    reopenOnWake: bool
    ping: str
    pong: str


class SpawnRequest(TypedDict, total=False):
    command: str
    argv: List[str]
    cwd: str
    env: Dict[str, str]
    stdin: str
    stdinBase64: str
    timeoutMs: int
    pty: SpawnRequestPty
    stdinMode: Literal["pipe"]
    outputEncoding: Literal["utf8", "base64"]


class SpawnRequestPty(TypedDict, total=False):
    cols: int
    rows: int


class SqlResults(TypedDict):
    results: List[SqlResultsResultsItem]


class SqlResultsResultsItem(TypedDict):
    columns: List[str]
    rows: List[List[Optional[Union[float, str, SqlResultsResultsItemRowsItemItem]]]]
    rowsWritten: int
    truncated: bool


class SqlResultsResultsItemRowsItemItem(TypedDict):
    base64: str


class _StartMcp(TypedDict):
    servers: List[McpServer]


class StartMcp(_StartMcp, total=False):
    port: int
    replace: bool


class _StateBatch(TypedDict):
    writes: List[Union[StateBatchWritesItem1, StateBatchWritesItem2, StateBatchWritesItem3]]


class StateBatch(_StateBatch, total=False):
    checks: List[StateBatchChecksItem]


class StateBatchChecksItem(TypedDict):
    key: str
    version: Optional[int]


class _StateBatchWritesItem1(TypedDict):
    op: Literal["put"]
    key: str


class StateBatchWritesItem1(_StateBatchWritesItem1, total=False):
    value: Any
    base64: str
    contentType: str
    ttlSeconds: int


class StateBatchWritesItem2(TypedDict):
    op: Literal["delete"]
    key: str


class StateBatchWritesItem3(TypedDict):
    op: Literal["add"]
    key: str
    by: int


class StateBatched(TypedDict):
    data: List[StateBatchedDataItem]


class _StateBatchedDataItem(TypedDict):
    key: str
    version: Optional[int]


class StateBatchedDataItem(_StateBatchedDataItem, total=False):
    value: int


class StateEntry(TypedDict):
    key: str
    version: int
    contentType: str
    bytes: int
    updatedAt: str
    expiresAt: Optional[str]
    by: str


class StateList(TypedDict):
    data: List[StateEntry]
    nextCursor: Optional[str]


class StateUsage(TypedDict):
    keys: StateUsageKeys
    sql: StateUsageSql
    queues: StateUsageQueues
    objects: StateUsageObjects
    bytes: int


class StateUsageKeys(TypedDict):
    bytes: int
    maxBytes: int
    count: int
    maxCount: int


class StateUsageSql(TypedDict):
    bytes: int
    maxBytes: int


class StateUsageQueues(TypedDict):
    bytes: int
    maxBytes: int
    tasks: int
    maxTasks: int


class StateUsageObjects(TypedDict):
    bytes: int
    maxBytes: int
    count: int
    maxCount: int
    reservedBytes: int


class StoppedMcp(TypedDict):
    stopped: Literal[True]


class Store(TypedDict):
    kind: Literal["store"]
    id: str
    name: str
    kinds: List[Literal["memory", "state"]]
    grants: List[StoreGrantsItem]
    createdAt: str
    updatedAt: str


class StoreGrantsItem(TypedDict):
    agent: str
    access: Literal["read", "write"]


class StoreList(TypedDict):
    data: List[Store]


class StoredObject(TypedDict):
    key: str
    bytes: int
    etag: str
    sha256: Optional[str]
    contentType: str
    updatedAt: str
    by: str


class _StoredSecret(TypedDict):
    name: str
    kind: Literal["secret"]
    sandboxId: Optional[str]
    mode: Literal["broker", "placeholder", "env"]
    hosts: List[str]
    header: Optional[str]
    format: Optional[str]
    rules: List[StoredSecretRulesItem]
    envName: Optional[str]
    placeholder: Optional[str]
    version: int
    valueBytes: int
    createdAt: str
    updatedAt: str
    lastUsedAt: Optional[str]
    enforced: bool


class StoredSecret(_StoredSecret, total=False):
    replayed: bool


class StoredSecretRulesItem(TypedDict, total=False):
    methods: List[str]
    paths: List[str]


class TakeTasks(TypedDict, total=False):
    max: int
    leaseSeconds: int
    waitSeconds: int


class _Task(TypedDict):
    id: str
    kind: Literal["task"]
    queue: str
    state: Literal["ready", "delayed", "leased", "dead", "done"]
    payload: Any
    attempts: int
    maxAttempts: int
    putAt: str
    by: str
    readyAt: Optional[str]
    lastError: Optional[str]


class Task(_Task, total=False):
    replayed: bool


class TaskList(TypedDict):
    data: List[Task]
    nextCursor: Optional[str]


class ThawHook(TypedDict, total=False):
    command: Union[str, List[str]]
    http: ThawHookHttp
    timeoutSeconds: int


class _ThawHookHttp(TypedDict):
    path: str
    port: int


class ThawHookHttp(_ThawHookHttp, total=False):
    method: Literal["GET", "POST", "PUT", "DELETE"]
    body: str
    headersEnv: Dict[str, str]


class TimelineEntry(TypedDict):
    at: str
    event: Literal["created", "woke", "booted", "failed", "paused", "stopped"]
    generation: int
    tookMs: Optional[int]
    reason: Optional[str]
    cause: Optional[Cause]


class Unpacked(TypedDict):
    path: str
    size: int


class UpdateAccount(TypedDict, total=False):
    displayName: str
    plan: Literal["unmetered", "metered", "flat", "trial"]
    quotas: UpdateAccountQuotas
    flatMicrosPerMonth: int
    dailyLimitMicros: Optional[int]
    suspended: bool


class UpdateAccountQuotas(TypedDict, total=False):
    running: Optional[int]
    vcpus: Optional[int]
    memoryMiB: Optional[int]
    kept: Optional[int]
    createdPerDay: Optional[int]


class UpdateDomain(TypedDict):
    port: int


class UpdateEventEndpoint(TypedDict, total=False):
    url: str
    events: List[str]
    sandboxes: Optional[UpdateEventEndpointSandboxes]
    description: Optional[str]
    enabled: bool


class UpdateEventEndpointSandboxes(TypedDict, total=False):
    names: List[str]
    labels: Dict[str, str]


class UpdateHook(TypedDict, total=False):
    name: str
    port: int
    path: str
    mode: Literal["async", "sync"]
    filters: List[str]
    maxBytes: int
    timeoutSeconds: int
    enabled: bool


class UpdateMemory(TypedDict, total=False):
    text: str
    metadata: Dict[str, Optional[Union[str, float, bool]]]
    tags: List[str]
    embedding: Optional[List[float]]
    ifVersion: int


class UpdateSandbox(TypedDict, total=False):
    name: str
    labels: Dict[str, str]
    env: Dict[str, Optional[str]]
    autoWake: bool
    idlePauseSeconds: int
    access: Literal["private", "public"]
    persistent: bool
    keepPauses: int
    wakeRules: List[WakeRule]
    maxWakesPerHour: Optional[int]
    sockets: List[SocketRule]
    localhostPorts: List[int]
    onBoot: Optional[OnBoot]
    onWake: Optional[OnWake]
    services: List[Service]
    secrets: List[str]
    maxTotalCostMicros: Optional[int]


class UpdateSchedule(TypedDict, total=False):
    name: str
    cron: str
    zone: str
    at: str
    enabled: bool
    catchUp: bool
    action: ScheduleAction


class UpdateSnapshot(TypedDict, total=False):
    name: Optional[str]
    labels: Dict[str, str]
    ifLabels: Dict[str, str]


class UpdateVolume(TypedDict, total=False):
    name: Optional[str]
    labels: Dict[str, str]


class _Upload(TypedDict):
    uploadId: str
    chunkBytes: int


class Upload(_Upload, total=False):
    mode: str
    replayed: bool


class _Usage(TypedDict):
    month: Union[str, Literal["all"]]
    lines: List[UsageLine]
    totalMicros: int
    orgId: str
    unit: Literal["microdollars"]
    credited: str
    spent: str
    held: str
    expired: str
    available: str
    takenBack: str
    trial: None
    resources: List[Any]


class Usage(_Usage, total=False):
    groups: List[UsageGroup]


class UsageGroup(TypedDict):
    key: Optional[str]
    totalMicros: int
    sandboxes: int


class UsageLine(TypedDict):
    month: str
    kind: Literal["sandbox", "volume", "snapshot", "backup"]
    sandboxId: str
    name: Optional[str]
    labels: Dict[str, str]
    plan: Literal["unmetered", "metered", "flat", "trial"]
    cpu: str
    memory: str
    stored: str
    volume: str
    backup: str
    cpuMicros: int
    memoryMicros: int
    storedMicros: int
    flatMicros: int
    volumeMicros: int
    backupMicros: int
    totalMicros: int


class _Volume(TypedDict):
    id: str
    kind: Literal["volume"]
    state: Literal["creating", "ready", "failed", "deleting", "deleted"]
    status: Literal["creating", "ready", "failed", "deleting", "deleted"]
    name: Optional[str]
    labels: Dict[str, str]
    region: str
    sizeMiB: int
    filesystem: Literal["ext4"]
    usedMiB: None
    measuredAt: None
    backedUp: bool
    backups: VolumeBackups
    restoredFrom: Optional[str]
    storedAt: Optional[str]
    storedBytes: int
    attachments: List[Attachment]
    error: Optional[str]
    createdAt: str
    readyAt: Optional[str]


class Volume(_Volume, total=False):
    replayed: bool


class VolumeBackups(TypedDict):
    daily: bool
    retentionDays: int
    lastReadyAt: Optional[str]


class _VolumeBackup(TypedDict):
    id: str
    kind: Literal["volume-backup"]
    state: Literal["pending", "ready", "failed", "deleting", "deleted"]
    status: Literal["pending", "ready", "failed", "deleting", "deleted"]
    name: Optional[str]
    labels: Dict[str, str]
    region: str
    volumeId: str
    sizeMiB: int
    trigger: Literal["manual", "daily"]
    retentionDays: int
    logicalBytes: int
    storedBytes: int
    meteredBytes: int
    error: Optional[str]
    createdAt: str
    readyAt: Optional[str]
    expiresAt: Optional[str]


class VolumeBackup(_VolumeBackup, total=False):
    replayed: bool


class VolumeBackupList(TypedDict):
    data: List[VolumeBackup]
    nextCursor: Optional[str]


class VolumeList(TypedDict):
    data: List[Volume]
    nextCursor: Optional[str]


class _WakeRule(TypedDict):
    match: WakeRuleMatch
    action: Literal["answer", "ignore", "no_wake", "no_keep"]


class WakeRule(_WakeRule, total=False):
    when: Literal["asleep", "always"]
    status: int
    body: str
    contentType: str


class WakeRuleMatch(TypedDict, total=False):
    methods: List[str]
    path: str
    userAgent: str
    port: int
    credential: str


class WakeSandbox(TypedDict, total=False):
    timeoutSeconds: int


class WatchEvents(TypedDict):
    events: List[FileEvent]
    notices: List[WatchLine]
    nextCursor: int
    lostBytes: int
    ended: bool


WatchLine = Union["WatchLine1", "WatchLine2", "WatchLine3", "WatchLine4", "WatchLine5", "WatchLine6", "WatchLine7", "WatchLine8"]


class WatchLine1(TypedDict):
    k: Literal["events"]
    events: List[FileEvent]
    cursor: int


class WatchLine2(TypedDict):
    k: Literal["overflow"]
    dropped: Optional[int]
    reason: Literal["kernel", "rate"]
    cursor: int


class WatchLine3(TypedDict):
    k: Literal["limit"]
    watches: int
    cursor: int


class WatchLine4(TypedDict):
    k: Literal["lost"]
    bytes: int
    cursor: int


class WatchLine5(TypedDict):
    k: Literal["continue"]
    cursor: int


class WatchLine6(TypedDict):
    k: Literal["paused"]
    cursor: int


class WatchLine7(TypedDict):
    k: Literal["end"]
    reason: Literal["stopped", "timeout", "root-removed"]
    cursor: int


class WatchLine8(TypedDict):
    k: Literal["failure"]
    code: str
    message: str
    cursor: int


class _Why(TypedDict):
    state: Literal["starting", "running", "pausing", "paused", "resuming", "stopping", "stopped", "deleted"]
    generation: int
    since: Optional[str]
    awake: List[Awake]
    hostAnswered: bool
    lastRun: Optional[TimelineEntry]
    runsToday: int
    chargedMicros: int
    timeline: List[TimelineEntry]


class Why(_Why, total=False):
    wakesAt: Optional[str]


class _WriteStdin(TypedDict):
    base64: str
    offset: int


class WriteStdin(_WriteStdin, total=False):
    eof: bool
