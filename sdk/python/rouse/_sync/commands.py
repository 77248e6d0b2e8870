# Made by test/support/print-python.ts from _async/commands.py: change that file.
"""Commands: run to the end, streamed, or left in the background."""

from __future__ import annotations

import base64
import uuid
from contextlib import closing
from typing import Any, Callable, Dict, Generator, Mapping, Optional, Union, cast

from ..cursor import Event, OutputBuffer
from ..errors import CommandError, unexpected_answer
from ..options import RequestOptions
from ..results import Command, ExecResult
from ..answers import ExecResult as WireResult
from ..answers import Process as ProcessInfo
from ..wire import answer_of
from .output import exec_output
from .process import Process
from .remote import Remote

#: What a call may take longer than the command in it, milliseconds.
MARGIN_MS = 60_000
#: Longest command that is answered in one piece, and that of one that is streamed, milliseconds.
PLAIN_MS = 60_000
LONGEST_MS = 86_400_000
#: Bytes of each stream that a result holds when output was streamed.
STREAMED_BYTES = 16 * 1_048_576


def run_command(
    remote: Remote,
    command: Command,
    *,
    cwd: Optional[str],
    env: Optional[Mapping[str, str]],
    stdin: Union[str, bytes, None],
    timeout_ms: Optional[float],
    on_stdout: Optional[Callable[[str], object]],
    on_stderr: Optional[Callable[[str], object]],
    check: bool,
    idempotency_key: Optional[str],
) -> ExecResult:
    if on_stdout is not None or on_stderr is not None or (timeout_ms or 0) > PLAIN_MS:
        events = stream_command(
            remote, command, cwd=cwd, env=env, stdin=stdin, timeout_ms=timeout_ms, idempotency_key=idempotency_key
        )
        result = collect(events, on_stdout, on_stderr)
    else:
        body = {**command_body(command, cwd, env, stdin), **({} if timeout_ms is None else {"timeoutMs": timeout_ms})}
        limit = (PLAIN_MS if timeout_ms is None else timeout_ms) + MARGIN_MS
        answer = remote.post(":exec", body, idempotency_key=idempotency_key, timeout_ms=limit)
        result = result_of(answer_of(WireResult, answer))
    if check and (result.exit_code != 0 or result.timed_out):
        raise CommandError(result.exit_code, result.stdout, result.stderr, result.timed_out)
    return result


def stream_command(
    remote: Remote,
    command: Command,
    *,
    cwd: Optional[str],
    env: Optional[Mapping[str, str]],
    stdin: Union[str, bytes, None],
    timeout_ms: Optional[float],
    idempotency_key: Optional[str],
) -> Generator[Event, None, None]:
    limit = LONGEST_MS if timeout_ms is None else timeout_ms
    body = {**command_body(command, cwd, env, stdin), "timeoutMs": limit}
    return exec_output(remote, body, idempotency_key or str(uuid.uuid4()), limit + MARGIN_MS)


def spawn_process(
    remote: Remote,
    command: Command,
    *,
    cwd: Optional[str],
    env: Optional[Mapping[str, str]],
    stdin: Union[str, bytes, None],
    timeout_ms: Optional[float],
    output_encoding: Optional[str],
    request: Optional[RequestOptions],
) -> Process:
    is_pipe = stdin == "pipe"
    body = command_body(command, cwd, env, None if is_pipe else stdin)
    more = {"timeoutMs": timeout_ms, "outputEncoding": output_encoding, "stdinMode": "pipe" if is_pipe else None}
    body.update((name, value) for name, value in more.items() if value is not None)
    call: RequestOptions = request or {}
    answer = remote.post("/processes", body, **call)
    return Process(remote, answer_of(ProcessInfo, answer))


def command_body(
    command: Command, cwd: Optional[str], env: Optional[Mapping[str, str]], stdin: Union[str, bytes, None]
) -> Dict[str, Any]:
    body: Dict[str, Any] = {"command": command} if isinstance(command, str) else {"argv": list(command)}
    if cwd is not None:
        body["cwd"] = cwd
    if env is not None:
        body["env"] = dict(env)
    if isinstance(stdin, str):
        body["stdin"] = stdin
    elif stdin is not None:
        body["stdinBase64"] = base64.b64encode(stdin).decode()
    return body


def result_of(answer: WireResult) -> ExecResult:
    return ExecResult(
        exit_code=answer["exitCode"],
        stdout=answer["stdout"],
        stderr=answer["stderr"],
        timed_out=answer["timedOut"],
        stdout_truncated=answer["stdoutTruncated"],
        stderr_truncated=answer["stderrTruncated"],
        duration_ms=answer["durationMs"],
        process_id=answer["processId"],
    )


def collect(
    events: Generator[Event, None, None],
    on_stdout: Optional[Callable[[str], object]],
    on_stderr: Optional[Callable[[str], object]],
) -> ExecResult:
    stdout = OutputBuffer(STREAMED_BYTES)
    stderr = OutputBuffer(STREAMED_BYTES)
    process_id = ""
    is_lost = False
    with closing(events):
        for event in events:
            kind = event["type"]
            if kind == "start":
                process_id = cast(str, event["processId"])
            elif kind == "stdout":
                stdout.add(event)
                if on_stdout is not None:
                    on_stdout(event["data"])
            elif kind == "stderr":
                stderr.add(event)
                if on_stderr is not None:
                    on_stderr(event["data"])
            elif kind == "truncated":
                # The wire does not say whose bytes they were.
                is_lost = True
            elif kind == "exit":
                return ExecResult(
                    exit_code=event["exitCode"],
                    stdout=stdout.text(),
                    stderr=stderr.text(),
                    timed_out=event["timedOut"],
                    stdout_truncated=is_lost or stdout.truncated,
                    stderr_truncated=is_lost or stderr.truncated,
                    duration_ms=event["durationMs"],
                    process_id=process_id,
                )
    raise unexpected_answer("the command's output has no exit")
