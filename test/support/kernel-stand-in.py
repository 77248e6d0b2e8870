#!/usr/bin/python3
"""Stands for a Python that has a Jupyter kernel, for tests of what is around it.

Started with the bridge of the guest agent (interpreter.py) it says and hears the same lines, and runs code in a namespace
of its own; the bridge itself and Jupyter's messages are not tried by it. Any other script it starts as Python does.
"""

import ast
import io
import json
import os
import queue
import signal
import sys
import threading
import traceback

out = os.fdopen(os.dup(1), "w", encoding="utf-8")
running = threading.Event()


def say(**event):
    out.write(json.dumps(event) + "\n")
    out.flush()


class Stream(io.TextIOBase):
    def __init__(self, kind):
        self.kind = kind

    def write(self, text):
        if text:
            say(k=self.kind, text=text)
        return len(text)


def run(code, names):
    tree = ast.parse(code)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    value = None if last is None else eval(compile(last, "<cell>", "eval"), names)
    if value is not None:
        say(k="result", main=True, data={"text/plain": repr(value)}, refs={})


def hear(asked):
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] != "interrupt":
            asked.put(request)
        elif running.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    os._exit(0)


def main():
    asked, names, count = queue.Queue(), {}, 0
    sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
    threading.Thread(target=hear, args=[asked], daemon=True).start()
    say(k="ready", pid=os.getpid())
    while True:
        request = asked.get()
        if request["op"] != "run":
            say(k="prepared")
            continue
        count += 1
        say(k="start", n=count)
        status = "ok"
        try:
            running.set()
            run(request["code"], names)
        except BaseException as error:
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
            trace = traceback.format_exc()
            running.clear()
            say(k="error", name=type(error).__name__, value=str(error), traceback=trace)
        running.clear()
        say(k="done", status=status, n=count)


if any(word.endswith("interpreter.py") for word in sys.argv):
    main()
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
