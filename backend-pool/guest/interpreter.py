"""One Jupyter kernel for the guest agent: JSON lines on stdin and stdout.

In:  {"op": "run", "code": str} | {"op": "interrupt"}; the end of stdin ends the kernel.
Out: {"k": "ready"} once; for each run {"k": "start", "n": int|null}, "stdout", "stderr", "result", "error",
     then {"k": "done", "status": str, "n": int|null}; {"k": "dead"} when the kernel is gone.
"""

import json
import queue
import re
import sys
import threading

from jupyter_client.manager import KernelManager

# Loaded before any user code, so that importing them costs nothing; no name of theirs enters the user's namespace.
PRELOAD = "[__import__(m) for m in ('numpy', 'pandas', 'matplotlib', 'matplotlib.pyplot')] and None"
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

out_lock = threading.Lock()


def say(**event):
    with out_lock:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def start_kernel():
    # Unix sockets: a kernel on TCP would be one more open port of the sandbox.
    manager = KernelManager(kernel_name="python3", transport="ipc")
    manager.start_kernel(
        extra_arguments=[
            # No watch on the parent once a second: an idle machine has nothing that ticks. The end of stdin ends it.
            "--IPKernelApp.parent_handle=0",
            "--HistoryManager.enabled=False",
        ]
    )
    client = manager.blocking_client()
    client.start_channels(hb=False, stdin=False)
    client.wait_for_ready(timeout=600)
    return manager, client


def execute(manager, client, code, silent, emit):
    """Run code and hand on what it sends; answers (status, execution count), or None when the kernel died."""
    message_id = client.execute(code, silent=silent, store_history=not silent, allow_stdin=False, stop_on_error=False)
    count = None
    status = "ok"
    while True:
        try:
            message = client.get_iopub_msg(timeout=1)
        except queue.Empty:
            if not manager.is_alive():
                return None
            continue
        if message["parent_header"].get("msg_id") != message_id:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] == "idle":
            break
        if kind == "execute_input":
            count = content["execution_count"]
            emit(k="start", n=count)
        elif kind == "stream":
            emit(k=content["name"], text=content["text"])
        elif kind in ("execute_result", "display_data"):
            emit(k="result", main=kind == "execute_result", data=content["data"], refs={})
        elif kind == "error":
            status = "interrupted" if content["ename"] == "KeyboardInterrupt" else "error"
            trace = ANSI.sub("", "\n".join(content["traceback"]))
            emit(k="error", name=content["ename"], value=content["evalue"], traceback=trace)
    return status, count


def main():
    manager, client = start_kernel()
    execute(manager, client, PRELOAD, True, lambda **event: None)
    say(k="ready")
    runs = queue.Queue()

    def worker():
        while True:
            code = runs.get()
            if code is None:
                return
            outcome = execute(manager, client, code, False, say)
            if outcome is None:
                say(k="dead")
                return
            say(k="done", status=outcome[0], n=outcome[1])

    thread = threading.Thread(target=worker, daemon=True)
    thread.start()
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "run":
            runs.put(request["code"])
        elif request["op"] == "interrupt":
            manager.interrupt_kernel()
    client.stop_channels()
    manager.shutdown_kernel(now=True)


main()
