# Made by test/support/print-python.ts from _async/agents.py: change that file.
"""Agents: sandboxes with a known runtime in them, its keys brokered and its messages taken while it sleeps."""

from __future__ import annotations

import json
import posixpath
import uuid
from typing import Any, Dict, List, Literal, Mapping, Optional, Sequence, TYPE_CHECKING, cast

from ..agent_plan import AGENT_HOOK, AGENT_LABEL, SETUP_LABEL, AgentPlan, Preset, plan_agent
from ..agent_presets import DELIVERY_SECRET_FILE, PRESETS, TRIGGER_PROGRAM
from ..errors import InvalidRequestError, RouseError, known_error
from ..inputs import NamedSandboxVolumesItem, NetworkInput
from ..options import RequestOptions, Unpack
from ..results import AgentHook
from ..answers import AgentPreset, DeletedSandbox
from ..wire import answer_of, given, list_of
from .transport import Transport

if TYPE_CHECKING:
    from .client import Sandboxes
    from .sandbox import Sandbox


class NewAgent:
    """An agent that was made."""

    def __init__(self, sandbox: Sandbox, hook: Optional[AgentHook]) -> None:
        self.sandbox = sandbox
        #: Where messages for it are sent to. None: it takes none.
        self.hook = hook


class Agents:
    """Agents of an account. Each is a sandbox, and everything that a sandbox has goes for it as well.

    agent = rouse.agents.create(name="ada", runtime="openclaw", keys={"anthropic": key})
    rouse.agents.trigger("ada", "What is on today?")
    """

    def __init__(self, sandboxes: Sandboxes, transport: Transport) -> None:
        self._sandboxes = sandboxes
        self._transport = transport

    def presets(self, **request: Unpack[RequestOptions]) -> List[AgentPreset]:
        """The presets that come with it, and whether a host has their image."""
        return list_of(AgentPreset, self._transport.json("GET", "/v1/agent-presets", **request))

    def create(
        self,
        *,
        name: str,
        runtime: Optional[str] = None,
        preset: Optional[Preset] = None,
        keys: Optional[Mapping[str, str]] = None,
        model: Optional[str] = None,
        vcpu: Optional[int] = None,
        memory_mib: Optional[int] = None,
        disk_mib: Optional[int] = None,
        idle_pause_seconds: Optional[int] = None,
        network: Optional[NetworkInput] = None,
        env: Optional[Mapping[str, str]] = None,
        labels: Optional[Mapping[str, str]] = None,
        volumes: Optional[Sequence[NamedSandboxVolumesItem]] = None,
        access: Optional[Literal["private", "public"]] = None,
    ) -> NewAgent:
        """Make an agent: a sandbox of its runtime's image, its keys as secrets of the sandbox, and a hook for its messages.

        ``runtime``: a preset that comes with it: ``openclaw``, ``hermes``, ``paperclip``, ``opensre``; or ``preset``, one of
        one's own, as its file has it. ``keys``: of model providers, by the provider's name; the host puts them into
        requests, the machine never has them. ``model``: as the runtime writes it; that of the first key's provider unless
        given. Where it breaks off, the same call again goes on with what is there. Raises InvalidRequestError
        ``unknown_preset``, ``wrong_provider``, ``invalid_request``; ``invalid_image`` where no host has its image; and
        ConflictError ``name_taken`` for a sandbox that is not one of these, or is whole already.
        """
        fields = given(
            vcpu=vcpu,
            memory_mib=memory_mib,
            disk_mib=disk_mib,
            idle_pause_seconds=idle_pause_seconds,
            network=network,
            env=env,
            labels=labels,
            volumes=volumes,
            access=access,
        )
        plan = plan_agent(name, runtime, preset, keys or {}, model, fields)
        sandbox = self._sandbox(plan)
        for provider, value in plan.secrets:
            sandbox.secrets.set(provider, value=value, provider=cast(Any, provider))
        hook = None if plan.hook is None else self._hook(sandbox, plan, plan.hook)
        kept = {key: value for key, value in sandbox.info["labels"].items() if key != SETUP_LABEL}
        sandbox.update(labels=kept)
        return NewAgent(sandbox, hook)

    def list(self, **request: Unpack[RequestOptions]) -> List[Sandbox]:
        """The account's agents, the oldest first."""
        page = self._sandboxes.list(limit=100, **request)
        return [sandbox for sandbox in page if runtime_of(sandbox) is not None]

    def get(self, id_or_name: str, **request: Unpack[RequestOptions]) -> Sandbox:
        """By id or name, without waking it. Raises NotFoundError ``not_found``, also for a sandbox that is no agent."""
        sandbox = self._sandboxes.get(id_or_name, **request)
        if runtime_of(sandbox) is not None:
            return sandbox
        raise known_error("not_found", f"{id_or_name} is a sandbox, but no agent.")

    def delete(self, id_or_name: str, **request: Unpack[RequestOptions]) -> DeletedSandbox:
        """Delete it with its keys, its hook and its disk."""
        sandbox = self.get(id_or_name, timeout_ms=request.get("timeout_ms"))
        return self._sandboxes.delete(sandbox.id, **request)

    def trigger(
        self, id_or_name: str, message: str, *, id: Optional[str] = None, timeout_seconds: float = 300
    ) -> str:
        """Give an agent a message, waking it, and wait until it has worked on it. Answers what its runtime says of that.

        Two messages of one ``id`` are one; made up unless given. For messages that must not be lost while this program
        ends, send them to its hook. Raises InvalidRequestError ``invalid_argument`` for a runtime that takes no messages,
        and CommandError when the runtime refused it, or took too long.
        """
        sandbox = self.get(id_or_name)
        preset = PRESETS.get(runtime_of(sandbox) or "")
        if preset is not None and "trigger" not in preset:
            title = preset["title"]
            hint = cast(Optional[str], preset.get("note"))
            raise InvalidRequestError("invalid_argument", f"{title} takes no messages this way.", hint=hint)
        result = sandbox.exec(
            ["node", TRIGGER_PROGRAM, "send", id or f"msg_{uuid.uuid4()}"],
            stdin=json.dumps({"message": message}),
            timeout_ms=timeout_seconds * 1000,
            check=True,
        )
        return result.stdout

    def _sandbox(self, plan: AgentPlan) -> Sandbox:
        """The plan's sandbox: a new one, or the one that a call before this one began."""
        from .sandbox import Sandbox, SandboxInfo, started

        name = plan.sandbox["name"]
        id = plan.preset["id"]
        try:
            answer = self._transport.json(
                "POST", "/v1/sandboxes", json=plan.sandbox, wait_for_capacity=True, wait_seconds=60
            )
            return started(Sandbox(self._transport, answer_of(SandboxInfo, answer)))
        except RouseError as error:
            if error.code == "invalid_image":
                raise no_image(error, id) from error
            if error.code != "name_taken":
                raise
            found = self._sandboxes.get(name)
            labels: Dict[str, str] = found.info["labels"]
            if labels.get(AGENT_LABEL) != id or SETUP_LABEL not in labels:
                raise
            return found

    def _hook(self, sandbox: Sandbox, plan: AgentPlan, hook: Mapping[str, Any]) -> AgentHook:
        for before in sandbox.hooks.list():
            # Its secrets were shown to a call that broke off.
            if before["name"] == AGENT_HOOK:
                sandbox.hooks.delete(before["id"])
        made = sandbox.hooks.create(
            name=hook["name"],
            provider=hook["provider"],
            port=hook["port"],
            path=hook["path"],
            timeout_seconds=hook["timeoutSeconds"],
        )
        secret = made["deliverySecret"]
        if "body" in plan.preset["trigger"] and secret is not None:
            sandbox.files.mkdir(posixpath.dirname(DELIVERY_SECRET_FILE))
            sandbox.files.write(DELIVERY_SECRET_FILE, secret, mode=0o600)
        return AgentHook(made["url"] or "", made["secret"] or "")


def runtime_of(sandbox: Sandbox) -> Optional[str]:
    """The preset of an agent's sandbox; None for a sandbox that is none."""
    return sandbox.info["labels"].get(AGENT_LABEL)


def no_image(error: RouseError, preset: str) -> InvalidRequestError:
    return InvalidRequestError(
        error.code,
        f"No host has the image of {preset} yet.",
        status=error.status,
        details=error.details,
        request_id=error.request_id,
        hint=f"Its operator makes it once: npm start -- --agents {preset}, or ROUSE_AGENTS={preset} for a host agent. "
        "For a preset of your own: the path of its file.",
    )
