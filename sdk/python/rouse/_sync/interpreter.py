# Made by test/support/print-python.ts from _async/interpreter.py: change that file.
"""The code interpreter of a sandbox: variables live as long as the sandbox does, also over pause and wake."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Callable, Dict, List, Mapping, Optional, cast

from ..errors import connection_error
from ..options import RequestOptions, Unpack
from ..answers import Context, Execution, ExecutionError, ExecutionResultsItem
from ..wire import answer_of, field_of, given, list_of, segment
from .output import error_of_event
from .remote import Remote

#: Longest run that is asked for in one plain answer, milliseconds; longer ones are streamed.
PLAIN_MS = 60_000
#: What a call may take longer than the code in it, milliseconds.
MARGIN_MS = 60_000

#: One rich result: ``data`` maps mime types to text, or base64 for binary types.
CodeResult = ExecutionResultsItem
#: An exception of the code.
CodeError = ExecutionError


class Interpreter:
    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        #: The contexts: separate worlds of variables.
        self.contexts = Contexts(remote)

    def run(
        self,
        code: str,
        *,
        context: Optional[str] = None,
        timeout_ms: Optional[float] = None,
        interrupt_on_disconnect: Optional[bool] = None,
        on_stdout: Optional[Callable[[str], object]] = None,
        on_stderr: Optional[Callable[[str], object]] = None,
        on_result: Optional[Callable[[CodeResult], object]] = None,
        on_error: Optional[Callable[[CodeError], object]] = None,
        idempotency_key: Optional[str] = None,
    ) -> Execution:
        """Run Python code. An exception of the code is a result (``error``), and is not raised.

        ``timeout_ms``: longest time until the result, a wait for earlier runs or for the kernel's start included; 0 for
        none. Reaching it is a result (``status`` ``timeout``); code that has not begun by then never does. With
        ``interrupt_on_disconnect`` the code is interrupted when this program goes away.

            sandbox.interpreter.run("notes = ['prefers weekly summaries']")
            recall = sandbox.interpreter.run("notes")
            print(recall["results"][0]["data"]["text/plain"])
        """
        body = given(
            code=code, context=context, timeout_ms=timeout_ms, interrupt_on_disconnect=interrupt_on_disconnect
        )
        limit = timeout_ms + MARGIN_MS if timeout_ms else 0
        listening = any(one is not None for one in (on_stdout, on_stderr, on_result, on_error))
        if not listening and timeout_ms and timeout_ms <= PLAIN_MS:
            answer = self._remote.post(
                "/interpreter:run", body, idempotency_key=idempotency_key, timeout_ms=limit
            )
            return answer_of(Execution, answer)
        stream = self._remote.transport.events(
            "POST",
            self._remote.path("/interpreter:run"),
            json={**body, "stream": True},
            idempotency_key=idempotency_key,
            timeout_ms=limit,
        )
        with closing(stream):
            for raw in stream:
                event = cast(Dict[str, Any], raw) if isinstance(raw, dict) else {}
                kind = event.get("k")
                if kind == "stdout" and on_stdout is not None:
                    on_stdout(event["text"])
                elif kind == "stderr" and on_stderr is not None:
                    on_stderr(event["text"])
                elif kind == "result" and on_result is not None:
                    on_result({"main": event["main"], "data": event["data"], "refs": event["refs"]})
                elif kind == "error" and on_error is not None:
                    on_error({"name": event["name"], "value": event["value"], "traceback": event["traceback"]})
                elif kind == "execution":
                    return answer_of(Execution, event["execution"])
                elif kind == "failure":
                    raise error_of_event(event)
        raise connection_error("The run's stream ended without its result; the code may still be running")


class Contexts:
    """The contexts of an interpreter."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def list(self, **request: Unpack[RequestOptions]) -> List[Context]:
        return list_of(Context, self._remote.get("/interpreter/contexts", **request))

    def create(
        self,
        *,
        id: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        **request: Unpack[RequestOptions],
    ) -> Context:
        """Make a context. ``cwd`` is ``/workspace`` unless given."""
        body = given(id=id, cwd=cwd, env=env)
        return answer_of(Context, self._remote.post("/interpreter/contexts", body, **request))

    def restart(self, id: str, **request: Unpack[RequestOptions]) -> Context:
        """Start a context anew; its variables are gone. Raises NotFoundError ``context_not_found``."""
        return answer_of(Context, self._remote.post(f"{context_path(id)}:restart", {}, **request))

    def interrupt(self, id: str, **request: Unpack[RequestOptions]) -> bool:
        """Interrupt what runs in a context, as Ctrl-C does. Answers whether anything ran."""
        return field_of(self._remote.post(f"{context_path(id)}:interrupt", {}, **request), "interrupted", bool)

    def remove(self, id: str, **request: Unpack[RequestOptions]) -> bool:
        """End a context. Answers whether there was one."""
        return field_of(self._remote.delete(context_path(id), **request), "deleted", bool)


def context_path(id: str) -> str:
    return f"/interpreter/contexts/{segment(id)}"
