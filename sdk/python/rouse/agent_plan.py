"""What an agent is made of: worked out from its preset before anything is made. No I/O."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple, cast

from .agent_presets import BROKERED, DEFAULTS, PRESETS, PROVIDERS, TRIGGER_PORT, TRIGGER_PROGRAM, TRIGGER_VARIABLE
from .errors import InvalidRequestError, known_error

#: Labels of a sandbox that is an agent: its preset, and, until it is whole, that it is being set up.
AGENT_LABEL = "rouse/agent"
SETUP_LABEL = "rouse/agent-setup"
#: Its hook.
AGENT_HOOK = "agent"

Preset = Mapping[str, Any]


@dataclass(frozen=True)
class AgentPlan:
    preset: Preset
    #: Body of its creation.
    sandbox: Dict[str, Any]
    #: Names of providers, with the values of their keys.
    secrets: List[Tuple[str, str]]
    hook: Optional[Dict[str, Any]]


def plan_agent(
    name: str,
    runtime: Optional[str],
    own: Optional[Preset],
    keys: Mapping[str, str],
    model: Optional[str],
    fields: Mapping[str, Any],
) -> AgentPlan:
    """``fields`` are those of a sandbox, as the wire has them.

    Raises InvalidRequestError ``unknown_preset``, ``wrong_provider``, or ``invalid_request`` with every fault in
    ``details["issues"]``; values of keys are in none of them.
    """
    preset = preset_in(runtime, own)
    taken = [one for one in PROVIDERS if one in preset["providers"]]
    foreign = [one for one in keys if one not in taken]
    if foreign:
        message = f"{preset['title']} takes no key of {', '.join(foreign)}."
        raise known_error("wrong_provider", message, {"providers": taken, "known": PROVIDERS})
    secrets = [(one, keys[one]) for one in taken if one in keys]
    models = [preset["providers"][one].get("model") for one, _ in secrets]
    wanted = model if model is not None else next((one for one in models if one is not None), None)
    memory = preset.get("memoryMiB") or max(DEFAULTS["memoryMiB"], preset["minMemoryMiB"])
    issues: List[Dict[str, str]] = []
    if (fields.get("memoryMiB") or memory) < preset["minMemoryMiB"]:
        issues.append({"path": "memoryMiB", "message": f"{preset['title']} needs at least {preset['minMemoryMiB']}"})
    if model is not None and ("modelEnv" not in preset or not re.fullmatch(r"[!-~]{1,128}", model)):
        why = "printable ASCII without spaces" if "modelEnv" in preset else "can't be chosen here"
        issues.append({"path": "model", "message": why})
    issues += [{"path": f"keys.{one}", "message": "is empty"} for one, value in secrets if not value]
    if issues:
        raise refusal("The agent is not valid", issues)
    sandbox: Dict[str, Any] = {
        "name": name,
        "image": f"agent-{preset['id']}" if "recipe" in preset else DEFAULTS["image"],
        "vcpu": preset.get("vcpu") or DEFAULTS["vcpu"],
        "memoryMiB": memory,
        "diskMiB": preset.get("diskMiB") or DEFAULTS["diskMiB"],
        **{one: preset[one] for one in ("idlePauseSeconds", "network") if one in preset},
        **fields,
        "labels": {**fields.get("labels", {}), AGENT_LABEL: preset["id"], SETUP_LABEL: "pending"},
        "services": services_of(preset),
    }
    command = preset.get("identity") or preset.get("install")
    if command is not None:
        env = {"env": {preset["modelEnv"]: wanted}} if "modelEnv" in preset and wanted is not None else {}
        sandbox["onBoot"] = {**command, **_user(preset), **env}
    delivery = delivery_of(preset)
    hook = None if delivery is None else {"name": AGENT_HOOK, "provider": "standard", **delivery}
    return AgentPlan(preset, sandbox, secrets, hook)


def preset_in(runtime: Optional[str], own: Optional[Preset]) -> Preset:
    if (runtime is None) == (own is None):
        issue = {"path": "runtime", "message": "exactly one of runtime and preset"}
        raise refusal("An agent has a runtime, or a preset of its own: one of them", [issue])
    if runtime is not None:
        found = PRESETS.get(runtime)
        if found is not None:
            return found
        known = list(PRESETS)
        message = f"There is no preset {json.dumps(runtime)}; there are {', '.join(known)}."
        raise known_error("unknown_preset", message, {"presets": known})
    preset = own or {}
    needed = ("id", "title", "version", "start", "port", "ready", "providers", "minMemoryMiB")
    missing = [{"path": one, "message": "is missing"} for one in needed if preset.get(one) is None]
    if missing:
        raise refusal("The preset is not valid", missing)
    return preset


def services_of(preset: Preset) -> List[Dict[str, Any]]:
    """Its services, the agent first.

    The same preset has the same ones everywhere: a sandbox is told what its image's state runs already, and so nothing of
    it is started anew.
    """
    stop = preset.get("stop", {})
    ready = preset["ready"]
    brokered = {one["env"]: BROKERED for one in preset["providers"].values()}
    agent: Dict[str, Any] = {
        "name": "agent",
        "command": preset["start"],
        "env": {**preset.get("env", {}), **brokered},
        **_user(preset),
        "port": preset["port"],
        "ready": {
            "port": preset["port"],
            "path": ready["path"],
            "timeoutSeconds": ready.get("timeoutSeconds", DEFAULTS["readySeconds"]),
        },
        **({"stopSignal": stop["signal"]} if "signal" in stop else {}),
        **({"stopSeconds": stop["seconds"]} if "seconds" in stop else {}),
        **{one: preset[one] for one in ("freeze", "thaw") if one in preset},
    }
    trigger = preset.get("trigger", {})
    if "body" not in trigger:
        return [agent]
    told = json.dumps({**trigger, "port": trigger.get("port", preset["port"])}, ensure_ascii=False, separators=(",", ":"))
    carrier = {
        "name": "agent-trigger",
        "command": ["node", TRIGGER_PROGRAM],
        "env": {TRIGGER_VARIABLE: told},
        **_user(preset),
        "port": TRIGGER_PORT,
    }
    return [agent, carrier]


def delivery_of(preset: Preset) -> Optional[Dict[str, Any]]:
    """Where the inbox delivers a message, or None where it takes none."""
    trigger = cast(Optional[Dict[str, Any]], preset.get("trigger"))
    if trigger is None:
        return None
    seconds = trigger.get("timeoutSeconds", 60)
    if "body" in trigger:
        return {"port": TRIGGER_PORT, "path": "/", "timeoutSeconds": seconds}
    return {"port": trigger.get("port", preset["port"]), "path": trigger["path"], "timeoutSeconds": seconds}


def _user(preset: Preset) -> Dict[str, Any]:
    return {"user": preset["user"]} if "user" in preset else {}


def refusal(what: str, issues: List[Dict[str, str]]) -> InvalidRequestError:
    text = "; ".join(f"{issue['path']}: {issue['message']}" for issue in issues)
    return cast(InvalidRequestError, known_error("invalid_request", f"{what}: {text}.", {"issues": issues}))
