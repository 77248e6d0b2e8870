# long file: made by test/support/print-python.ts from sdk/openapi.json: change sdk/contract.
"""What methods take as keyword arguments, and what is in them."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Literal, Optional, TypedDict, Union

from .options import RequestOptions, Time

#: Fields whose value is the caller's: the names in it are left as they are.
FREE: FrozenSet[str] = frozenset(
    {
        "env",
        "headers",
        "headersEnv",
        "ifLabels",
        "labels",
        "metadata",
        "options",
        "secrets",
        "value",
    }
)


class _AddCredit(RequestOptions):
    micros: int


class AddCredit(_AddCredit, total=False):
    note: str


class BackupPolicy(RequestOptions, total=False):
    daily: bool
    retention_days: int


class BackupVolume(RequestOptions, total=False):
    name: str
    labels: Dict[str, str]
    retention_days: int


class _CreateAccount(RequestOptions):
    name: str


class CreateAccount(_CreateAccount, total=False):
    display_name: str
    plan: Literal["unmetered", "metered", "flat", "trial"]
    quotas: CreateAccountQuotas
    flat_micros_per_month: int
    daily_limit_micros: Optional[int]
    suspended: bool
    credit_micros: int


class CreateAccountQuotas(TypedDict, total=False):
    running: Optional[int]
    vcpus: Optional[int]
    memory_mib: Optional[int]
    kept: Optional[int]
    created_per_day: Optional[int]


class CreateContext(RequestOptions, total=False):
    id: str
    language: Literal["python"]
    cwd: str
    env: Dict[str, str]


class CreateDrill(RequestOptions):
    kill: Literal["guest", "vmm", "host", "edge"]


class _CreateEventEndpoint(RequestOptions):
    url: str


class CreateEventEndpoint(_CreateEventEndpoint, total=False):
    events: List[str]
    sandboxes: Optional[CreateEventEndpointSandboxes]
    description: Optional[str]
    enabled: bool


class CreateEventEndpointSandboxes(TypedDict, total=False):
    names: List[str]
    labels: Dict[str, str]


class _CreateHook(RequestOptions):
    name: str
    provider: Literal["standard", "github", "stripe", "slack", "telegram", "discord", "bearer", "none"]


class CreateHook(_CreateHook, total=False):
    secret: str
    port: int
    path: str
    mode: Literal["async", "sync"]
    filters: List[str]
    max_bytes: int
    timeout_seconds: int
    enabled: bool


class CreateKey(RequestOptions, total=False):
    access: Literal["full", "read", "sandboxes", "billing"]
    name_prefix: str
    max_sandboxes: int
    expires_at: Time
    daily_limit_micros: int
    name: str
    ttl_seconds: int
    member_id: str


class CreateLink(RequestOptions, total=False):
    name: str
    port: int
    path: str
    ttl_seconds: int
    expires_at: Time
    wake: bool


class _CreateMember(RequestOptions):
    name: str
    role: Literal["owner", "admin", "developer", "billing"]


class CreateMember(_CreateMember, total=False):
    email: str


class _CreatePreview(RequestOptions):
    port: int


class CreatePreview(_CreatePreview, total=False):
    visibility: Literal["private", "public"]
    ttl_seconds: int
    expires_at: Time


class CreateSandbox(RequestOptions, total=False):
    name: str
    get_or_create: bool
    labels: Dict[str, str]
    env: Dict[str, str]
    image: str
    snapshot: str
    vcpu: int
    memory_mib: int
    disk_mib: int
    idle_pause_seconds: int
    auto_wake: bool
    access: Literal["private", "public"]
    funding: Literal["trial", "paid"]
    pausable: bool
    region: str
    cpu: Literal["shared"]
    max_cost_micros: int
    max_total_cost_micros: int
    lease_seconds: int
    timeout_seconds: int
    on_lease_end: Literal["stop", "pause", "delete"]
    on_timeout: Literal["stop", "pause", "delete"]
    persistent: bool
    keep_pauses: int
    volumes: List[CreateSandboxVolumesItem]
    wake_rules: List[WakeRule]
    max_wakes_per_hour: int
    sockets: List[SocketRule]
    localhost_ports: List[int]
    on_boot: OnBoot
    on_wake: OnWake
    services: List[Service]
    network: NetworkInput
    secrets: List[str]


class _CreateSandboxVolumesItem(TypedDict):
    volume_id: str
    path: str


class CreateSandboxVolumesItem(_CreateSandboxVolumesItem, total=False):
    mode: Literal["rw", "snapshot"]


class _CreateSchedule(RequestOptions):
    action: ScheduleAction


class CreateSchedule(_CreateSchedule, total=False):
    name: str
    cron: str
    zone: str
    at: Time
    enabled: bool
    catch_up: bool


class CreateSession(RequestOptions, total=False):
    name: str
    scopes: List[Literal["exec", "files", "files:read", "interpreter", "terminal", "http"]]
    origins: List[str]
    servers: bool
    ttl_seconds: int


class CreateSnapshot(RequestOptions, total=False):
    mode: Literal["memory", "disk"]
    name: str
    labels: Dict[str, str]
    retention_days: int


class CreateVolume(RequestOptions, total=False):
    size_mib: int
    from_backup: str
    name: str
    labels: Dict[str, str]
    region: str


class ForkSandbox(RequestOptions, total=False):
    count: int
    name: str
    labels: Dict[str, str]
    keep_snapshot: bool
    funding: Literal["trial", "paid"]


class Grant(RequestOptions):
    agent: str
    access: Literal["read", "write"]


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


class MemoryFilter(TypedDict, total=False):
    tags: List[str]
    author: str
    since: Time
    until: Time
    metadata: Dict[str, Optional[Union[str, float, bool]]]


class MemorySearch(RequestOptions, total=False):
    embedding: List[float]
    filter: MemoryFilter
    limit: int


class _NackTask(RequestOptions):
    id: str
    lease: str


class NackTask(_NackTask, total=False):
    delay_seconds: int
    error: str


class NamedSandbox(RequestOptions, total=False):
    labels: Dict[str, str]
    env: Dict[str, str]
    image: str
    snapshot: str
    vcpu: int
    memory_mib: int
    disk_mib: int
    idle_pause_seconds: int
    auto_wake: bool
    access: Literal["private", "public"]
    funding: Literal["trial", "paid"]
    pausable: bool
    region: str
    cpu: Literal["shared"]
    max_cost_micros: int
    max_total_cost_micros: int
    lease_seconds: int
    timeout_seconds: int
    on_lease_end: Literal["stop", "pause", "delete"]
    on_timeout: Literal["stop", "pause", "delete"]
    persistent: bool
    keep_pauses: int
    volumes: List[NamedSandboxVolumesItem]
    wake_rules: List[WakeRule]
    max_wakes_per_hour: int
    sockets: List[SocketRule]
    localhost_ports: List[int]
    on_boot: OnBoot
    on_wake: OnWake
    services: List[Service]
    network: NetworkInput
    secrets: List[str]


class _NamedSandboxVolumesItem(TypedDict):
    volume_id: str
    path: str


class NamedSandboxVolumesItem(_NamedSandboxVolumesItem, total=False):
    mode: Literal["rw", "snapshot"]


class NewForks(RequestOptions, total=False):
    name: str
    labels: Dict[str, str]
    keep_snapshot: bool


class _NewMemory(TypedDict):
    text: str


class NewMemory(_NewMemory, total=False):
    metadata: Dict[str, Optional[Union[str, float, bool]]]
    tags: List[str]
    embedding: List[float]
    idempotency_id: str


class NewSandbox(RequestOptions, total=False):
    name: str
    labels: Dict[str, str]
    env: Dict[str, str]
    image: str
    snapshot: str
    vcpu: int
    memory_mib: int
    disk_mib: int
    idle_pause_seconds: int
    auto_wake: bool
    access: Literal["private", "public"]
    funding: Literal["trial", "paid"]
    pausable: bool
    region: str
    cpu: Literal["shared"]
    max_cost_micros: int
    max_total_cost_micros: int
    lease_seconds: int
    timeout_seconds: int
    on_lease_end: Literal["stop", "pause", "delete"]
    on_timeout: Literal["stop", "pause", "delete"]
    persistent: bool
    keep_pauses: int
    volumes: List[NewSandboxVolumesItem]
    wake_rules: List[WakeRule]
    max_wakes_per_hour: int
    sockets: List[SocketRule]
    localhost_ports: List[int]
    on_boot: OnBoot
    on_wake: OnWake
    services: List[Service]
    network: NetworkInput
    secrets: List[str]


class _NewSandboxVolumesItem(TypedDict):
    volume_id: str
    path: str


class NewSandboxVolumesItem(_NewSandboxVolumesItem, total=False):
    mode: Literal["rw", "snapshot"]


class ObjectSignature(RequestOptions, total=False):
    method: Literal["GET", "PUT"]
    expires_seconds: int
    content_type: str
    max_bytes: int


class _PutSecret(RequestOptions):
    value: str


class PutSecret(_PutSecret, total=False):
    mode: Literal["broker", "placeholder", "env"]
    provider: Literal["anthropic", "openai", "gemini", "openrouter", "github"]
    hosts: List[str]
    header: str
    format: str
    rules: List[SecretRule]
    env_name: str


class PutStore(RequestOptions, total=False):
    kinds: List[Literal["memory", "state"]]
    grants: List[Grant]


class RestoreVolume(RequestOptions, total=False):
    size_mib: int
    name: str
    labels: Dict[str, str]
    region: str


class RotateEventEndpoint(RequestOptions, total=False):
    overlap_seconds: int


class RotateHook(RequestOptions, total=False):
    what: Literal["secret", "deliverySecret", "url"]
    secret: str
    overlap_seconds: int


class SearchMemory(TypedDict, total=False):
    query: str
    embedding: List[float]
    filter: MemoryFilter
    limit: int


class _SetNetwork(RequestOptions):
    internet: bool


class SetNetwork(_SetNetwork, total=False):
    allow: List[str]
    deny: List[str]
    connect: List[str]


class _SignObject(RequestOptions):
    key: str


class SignObject(_SignObject, total=False):
    method: Literal["GET", "PUT"]
    expires_seconds: int
    content_type: str
    max_bytes: int


class _StateBatch(RequestOptions):
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
    content_type: str
    ttl_seconds: int


class StateBatchWritesItem2(TypedDict):
    op: Literal["delete"]
    key: str


class StateBatchWritesItem3(TypedDict):
    op: Literal["add"]
    key: str
    by: int


class TakeTasks(RequestOptions, total=False):
    max: int
    lease_seconds: int
    wait_seconds: int


class UpdateAccount(RequestOptions, total=False):
    display_name: str
    plan: Literal["unmetered", "metered", "flat", "trial"]
    quotas: UpdateAccountQuotas
    flat_micros_per_month: int
    daily_limit_micros: Optional[int]
    suspended: bool


class UpdateAccountQuotas(TypedDict, total=False):
    running: Optional[int]
    vcpus: Optional[int]
    memory_mib: Optional[int]
    kept: Optional[int]
    created_per_day: Optional[int]


class UpdateEventEndpoint(RequestOptions, total=False):
    url: str
    events: List[str]
    sandboxes: Optional[UpdateEventEndpointSandboxes]
    description: Optional[str]
    enabled: bool


class UpdateEventEndpointSandboxes(TypedDict, total=False):
    names: List[str]
    labels: Dict[str, str]


class UpdateHook(RequestOptions, total=False):
    name: str
    port: int
    path: str
    mode: Literal["async", "sync"]
    filters: List[str]
    max_bytes: int
    timeout_seconds: int
    enabled: bool


class UpdateMemory(RequestOptions, total=False):
    text: str
    metadata: Dict[str, Optional[Union[str, float, bool]]]
    tags: List[str]
    embedding: Optional[List[float]]
    if_version: int


class UpdateSandbox(RequestOptions, total=False):
    name: str
    labels: Dict[str, str]
    env: Dict[str, Optional[str]]
    auto_wake: bool
    idle_pause_seconds: int
    access: Literal["private", "public"]
    persistent: bool
    keep_pauses: int
    wake_rules: List[WakeRule]
    max_wakes_per_hour: Optional[int]
    sockets: List[SocketRule]
    localhost_ports: List[int]
    on_boot: Optional[OnBoot]
    on_wake: Optional[OnWake]
    services: List[Service]
    secrets: List[str]
    max_total_cost_micros: Optional[int]


class UpdateSchedule(RequestOptions, total=False):
    name: str
    cron: str
    zone: str
    at: Time
    enabled: bool
    catch_up: bool
    action: ScheduleAction


class UpdateSnapshot(RequestOptions, total=False):
    name: Optional[str]
    labels: Dict[str, str]
    if_labels: Dict[str, str]


class UpdateVolume(RequestOptions, total=False):
    name: Optional[str]
    labels: Dict[str, str]


class _WakeRule(TypedDict):
    match: WakeRuleMatch
    action: Literal["answer", "ignore", "no_wake", "no_keep"]


class WakeRule(_WakeRule, total=False):
    when: Literal["asleep", "always"]
    status: int
    body: str
    content_type: str


class WakeRuleMatch(TypedDict, total=False):
    methods: List[str]
    path: str
    user_agent: str
    port: int
    credential: str


class _SocketRule(TypedDict):
    path: str


class SocketRule(_SocketRule, total=False):
    port: int
    keep: bool
    announce: bool
    reopen_on_wake: bool
    ping: str
    pong: str


class _OnBoot(TypedDict):
    command: Union[str, List[str]]


class OnBoot(_OnBoot, total=False):
    cwd: str
    env: Dict[str, str]
    user: str
    timeout_seconds: int


class _OnWake(TypedDict):
    command: Union[str, List[str]]


class OnWake(_OnWake, total=False):
    cwd: str
    env: Dict[str, str]
    user: str
    timeout_seconds: int
    blocking: bool


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
    stop_signal: Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGKILL"]
    stop_seconds: int
    freeze: FreezeHook
    thaw: ThawHook


class _ServiceReady(TypedDict):
    port: int


class ServiceReady(_ServiceReady, total=False):
    path: str
    timeout_seconds: int


class NetworkInput(TypedDict, total=False):
    internet: bool
    allow: List[str]
    deny: List[str]


ScheduleAction = Union["ScheduleAction1", "ScheduleAction2", "ScheduleAction3", "ScheduleAction4"]


class _ScheduleAction1(TypedDict):
    kind: Literal["command"]


class ScheduleAction1(_ScheduleAction1, total=False):
    command: str
    argv: List[str]
    cwd: str
    env: Dict[str, str]
    timeout_seconds: int


class _ScheduleAction2(TypedDict):
    kind: Literal["request"]


class ScheduleAction2(_ScheduleAction2, total=False):
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    port: int
    path: str
    headers: Dict[str, str]
    body: str
    timeout_seconds: int


class ScheduleAction3(TypedDict):
    kind: Literal["drill"]
    kill: Literal["guest", "vmm", "host", "edge"]


class ScheduleAction4(TypedDict):
    kind: Literal["wake"]


class SecretRule(TypedDict, total=False):
    methods: List[str]
    paths: List[str]


class FreezeHook(TypedDict, total=False):
    command: Union[str, List[str]]
    http: FreezeHookHttp
    timeout_seconds: int
    required: bool


class _FreezeHookHttp(TypedDict):
    path: str
    port: int


class FreezeHookHttp(_FreezeHookHttp, total=False):
    method: Literal["GET", "POST", "PUT", "DELETE"]
    body: str
    headers_env: Dict[str, str]


class ThawHook(TypedDict, total=False):
    command: Union[str, List[str]]
    http: ThawHookHttp
    timeout_seconds: int


class _ThawHookHttp(TypedDict):
    path: str
    port: int


class ThawHookHttp(_ThawHookHttp, total=False):
    method: Literal["GET", "POST", "PUT", "DELETE"]
    body: str
    headers_env: Dict[str, str]
