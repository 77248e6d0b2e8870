# Made by test/support/print-python.ts from sdk/contract/presets: change what is there.
"""The presets of agents that come with it."""

from __future__ import annotations

from typing import Any, Dict, List

BROKERED = "rouse-brokered"
DELIVERY_SECRET_FILE = "/workspace/.rouse-agent/delivery-secret"
TRIGGER_PORT = 10810
TRIGGER_PROGRAM = "/usr/lib/rouse/agent-trigger.ts"
TRIGGER_VARIABLE = "ROUSE_AGENT_TRIGGER"
#: Of a sandbox.
DEFAULTS: Dict[str, Any] = {
    "image": "default",
    "vcpu": 2,
    "memoryMiB": 2048,
    "diskMiB": 8192,
    "readySeconds": 120,
}
#: Model providers whose keys are known.
PROVIDERS: List[str] = [
    "anthropic",
    "openai",
    "gemini",
    "openrouter",
    "github",
]
PRESETS: Dict[str, Dict[str, Any]] = {
    "openclaw": {
        "id": "openclaw",
        "title": "OpenClaw",
        "version": "2026.9.6",
        "source": {
            "registry": "npm",
            "package": "openclaw",
            "homepage": "https://docs.openclaw.ai/",
        },
        "recipe": {},
        "start": [
            "node",
            "--import",
            "/usr/lib/rouse/agent-trust.ts",
            "--import",
            "/opt/agent/openclaw-unlock.mjs",
            "/opt/agent/node_modules/openclaw/openclaw.mjs",
            "gateway",
            "--port",
            "18789",
            "--bind",
            "loopback",
        ],
        "env": {
            "OPENCLAW_NO_RESPAWN": "1",
            "NODE_COMPILE_CACHE": "/workspace/.cache/node",
            "OPENCLAW_PACKAGED_COMPILE_CACHE_RESPAWNED": "1",
            "OPENCLAW_DISABLE_BONJOUR": "1",
            "OPENCLAW_EXEC_SHELL_SNAPSHOT": "0",
        },
        "port": 18789,
        "health": {
            "path": "/healthz",
        },
        "ready": {
            "path": "/readyz",
            "timeoutSeconds": 600,
        },
        "identity": {
            "command": [
                "node",
                "/opt/agent/openclaw-identity.mjs",
            ],
            "timeoutSeconds": 600,
        },
        "modelEnv": "ROUSE_AGENT_MODEL",
        "stop": {
            "seconds": 30,
        },
        "freeze": {
            "command": [
                "node",
                "/opt/agent/openclaw-suspend.mjs",
                "prepare",
            ],
            "timeoutSeconds": 30,
            "required": True,
        },
        "thaw": {
            "command": [
                "node",
                "/opt/agent/openclaw-suspend.mjs",
                "resume",
            ],
            "timeoutSeconds": 30,
        },
        "state": {
            "folders": [
                "/workspace/.openclaw",
            ],
            "caches": [
                "/workspace/.openclaw/cache",
                "/workspace/.openclaw/tmp",
            ],
        },
        "providers": {
            "anthropic": {
                "env": "ANTHROPIC_API_KEY",
                "model": "anthropic/claude-sonnet-4-6",
            },
            "openai": {
                "env": "OPENAI_API_KEY",
                "model": "openai/gpt-5.2",
            },
            "gemini": {
                "env": "GEMINI_API_KEY",
                "model": "google/gemini-3-pro-preview",
            },
        },
        "trigger": {
            "path": "/hooks/agent",
            "tokenFile": "/workspace/.rouse-agent/hook-token",
            "headers": {
                "idempotency-key": "{{id}}",
            },
            "body": {
                "message": "{{message}}",
                "name": "Rouse",
                "agentId": "main",
                "deliver": False,
                "waitForCompletion": True,
            },
            "timeoutSeconds": 300,
        },
        "minMemoryMiB": 2048,
        "diskMiB": 8192,
        "proved": True,
        "note": "Run in emulated machines of its image: woken by a message, its process killed, and asked again. Not tried on KVM.",
    },
    "hermes": {
        "id": "hermes",
        "title": "Hermes Agent",
        "version": "0.19.0",
        "source": {
            "registry": "pypi",
            "package": "hermes-agent",
            "homepage": "https://github.com/NousResearch/hermes-agent",
        },
        "recipe": {},
        "identity": {
            "command": "umask 077; mkdir -p /workspace/.rouse-agent; [ -s /workspace/.rouse-agent/api-key ] && exit 0; openssl rand -hex 32 > /workspace/.rouse-agent/api-key.new && mv /workspace/.rouse-agent/api-key.new /workspace/.rouse-agent/api-key",
        },
        "start": [
            "/opt/agent/hermes-start.sh",
        ],
        "env": {
            "HERMES_HOME": "/workspace/.hermes",
            "API_SERVER_ENABLED": "true",
            "API_SERVER_PORT": "8642",
        },
        "port": 8642,
        "health": {
            "path": "/health",
        },
        "ready": {
            "path": "/health",
            "timeoutSeconds": 600,
        },
        "stop": {
            "seconds": 30,
        },
        "state": {
            "folders": [
                "/workspace/.hermes",
            ],
            "caches": [
                "/workspace/.hermes/logs",
            ],
        },
        "providers": {
            "anthropic": {
                "env": "ANTHROPIC_API_KEY",
                "baseUrlEnv": "ANTHROPIC_BASE_URL",
            },
            "openai": {
                "env": "OPENAI_API_KEY",
                "baseUrlEnv": "OPENAI_BASE_URL",
            },
            "gemini": {
                "env": "GEMINI_API_KEY",
            },
            "openrouter": {
                "env": "OPENROUTER_API_KEY",
            },
        },
        "trigger": {
            "path": "/v1/runs",
            "tokenFile": "/workspace/.rouse-agent/api-key",
            "headers": {
                "idempotency-key": "{{id}}",
            },
            "body": {
                "input": "{{message}}",
            },
            "timeoutSeconds": 60,
        },
        "minMemoryMiB": 2048,
        "memoryMiB": 4096,
        "diskMiB": 8192,
        "proved": False,
        "note": "Its packages were out of reach where this was made: installed and run by nobody here. Ports, paths and variables are those of its documentation.",
    },
    "paperclip": {
        "id": "paperclip",
        "title": "Paperclip",
        "version": "2026.916.1",
        "source": {
            "registry": "npm",
            "package": "paperclipai",
            "homepage": "https://github.com/paperclipai/paperclip",
        },
        "recipe": {},
        "identity": {
            "command": "umask 077; mkdir -p /workspace/.paperclip/instances/default; [ -s /workspace/.paperclip/instances/default/.env ] && exit 0; for name in PAPERCLIP_AGENT_JWT_SECRET PAPERCLIP_TOOL_ACTION_SIGNING_SECRET BETTER_AUTH_SECRET; do echo \"$name=$(openssl rand -hex 32)\"; done > /workspace/.paperclip/instances/default/.env.new && mv /workspace/.paperclip/instances/default/.env.new /workspace/.paperclip/instances/default/.env",
        },
        "start": "p=\"node --import /usr/lib/rouse/agent-trust.ts /opt/agent/node_modules/paperclipai/dist/index.js\"; if [ -e /workspace/.paperclip/instances/default/config.json ]; then exec $p run; else exec $p onboard --yes --no-install-service --run; fi",
        "env": {
            "PAPERCLIP_TELEMETRY_DISABLED": "1",
            "PORT": "3100",
            "HOST": "127.0.0.1",
            "NODE_COMPILE_CACHE": "/workspace/.cache/node",
        },
        "port": 3100,
        "health": {
            "path": "/api/health",
        },
        "ready": {
            "path": "/api/health",
            "timeoutSeconds": 600,
        },
        "stop": {
            "seconds": 30,
        },
        "state": {
            "folders": [
                "/workspace/.paperclip",
            ],
            "caches": [
                "/workspace/.paperclip/instances/default/logs",
                "/workspace/.paperclip/instances/default/data/backups",
            ],
        },
        "providers": {
            "anthropic": {
                "env": "ANTHROPIC_API_KEY",
            },
            "openai": {
                "env": "OPENAI_API_KEY",
            },
            "gemini": {
                "env": "GEMINI_API_KEY",
            },
        },
        "minMemoryMiB": 2048,
        "diskMiB": 8192,
        "proved": True,
        "note": "Run in an emulated machine of its image: asleep and woken, its process killed and up again. Not tried on KVM. Takes no messages by trigger: make a hook to one of its own webhook paths.",
    },
    "opensre": {
        "id": "opensre",
        "title": "OpenSRE",
        "version": "2026.4.5",
        "source": {
            "registry": "pypi",
            "package": "opensre",
            "homepage": "https://github.com/Tracer-Cloud/opensre",
        },
        "recipe": {},
        "start": [
            "/opt/agent/venv/bin/opensre",
            "gateway",
            "start",
            "--foreground",
        ],
        "env": {
            "OPENSRE_HOME": "/workspace/.opensre",
            "OPENSRE_DISABLE_KEYRING": "1",
            "MODE": "gateway",
            "PORT": "8000",
        },
        "port": 8000,
        "health": {
            "path": "/health",
        },
        "ready": {
            "path": "/ok",
            "timeoutSeconds": 600,
        },
        "stop": {
            "seconds": 30,
        },
        "state": {
            "folders": [
                "/workspace/.opensre",
            ],
        },
        "providers": {
            "anthropic": {
                "env": "ANTHROPIC_API_KEY",
            },
            "openai": {
                "env": "OPENAI_API_KEY",
            },
            "gemini": {
                "env": "GEMINI_API_KEY",
            },
        },
        "trigger": {
            "path": "/alerts",
            "body": {
                "message": "{{message}}",
                "id": "{{id}}",
            },
            "timeoutSeconds": 60,
        },
        "minMemoryMiB": 2048,
        "memoryMiB": 4096,
        "diskMiB": 8192,
        "proved": False,
        "note": "Its packages were out of reach where this was made, and its published package is older than its documentation: installed and run by nobody here.",
    },
}
