"""One Jupyter kernel for the guest agent: JSON lines on stdin and stdout.

Usage: interpreter.py FOLDER [--preload] [--outlives]; the folder is for the kernel's sockets.

In:  {"op": "run", "code": str}, {"op": "prepare", "set": {name: str}, "unset": [name], "reseed": bool},
     {"op": "warm"}, {"op": "interrupt"}; the end of stdin ends the kernel. With --outlives it does not: the next agent
     connects to the socket "agent" in the folder, and goes on where the one before ended.
Out: {"k": "ready", "pid": int, "busy": bool} first; for each run {"k": "start", "n": int}, "stdout", "stderr", "result", "error",
     then {"k": "done", "status": str, "n": int|null}; {"k": "prepared"} after warm, too; {"k": "dead"} when the kernel is gone.

It speaks the kernel's protocol itself: loading the full client takes longer than all the rest, and here it would have
to poll. All waiting is one poll without a time limit, so an idle kernel costs an idle machine nothing.
"""

import ctypes
import hashlib
import hmac
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time

import zmq

# Loaded before any user code, so that importing them costs nothing; no name of theirs enters the user's namespace.
PRELOAD = "[__import__(m) for m in ('numpy', 'pandas', 'matplotlib', 'matplotlib.pyplot')] and None"
# What showing a table loads besides; only for machines that others are made from, as it takes its time.
WARM = (
    "get_ipython().display_formatter.format(__import__('pandas').DataFrame({'a': [1.5], 'b': ['x']})) and None"
)
# A lambda, for the same reason.
PREPARE = (
    "(lambda os, sys, r: (os.environ.update(%r), [os.environ.pop(n, None) for n in %r],"
    " %r and (r.seed(), 'numpy' in sys.modules and sys.modules['numpy'].random.seed())) and None)"
    "(__import__('os'), __import__('sys'), __import__('random'))"
)
DELIMITER = b"<IDS|MSG>"
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
PR_SET_PDEATHSIG = 1

out = os.fdopen(os.dup(1), "w", encoding="utf-8")
outlives = "--outlives" in sys.argv
listener = socket.socket(socket.AF_UNIX)


def say(**event):
    global out
    if out is None:
        return
    try:
        line = json.dumps(event, allow_nan=False)
    except (TypeError, ValueError):
        # A library may send what JSON has no word for; its text form is better than none of the result.
        line = json.dumps({key: plain(value) for key, value in event.items()})
    try:
        out.write(line + "\n")
        out.flush()
    except BrokenPipeError:
        if not outlives:
            os._exit(0)
        # Nobody hears it. That the agent is gone is seen at stdin.
        out = None


def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    try:
        json.dumps(value, allow_nan=False)
        return value
    except (TypeError, ValueError):
        return str(value)


class Kernel:
    def __init__(self, folder):
        self.key = secrets.token_hex(16).encode()
        self.session = secrets.token_hex(8)
        # Unix sockets: a kernel on TCP would be one more open port of the sandbox.
        ports = dict(shell_port=1, iopub_port=2, stdin_port=3, control_port=4, hb_port=5)
        base = os.path.join(folder, "k")
        file = os.path.join(folder, "kernel.json")
        with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as connection:
            scheme = {"transport": "ipc", "ip": base, "signature_scheme": "hmac-sha256", "key": self.key.decode()}
            json.dump({**scheme, **ports}, connection)
        self.errors = tempfile.TemporaryFile(dir=folder)
        libc = ctypes.CDLL(None)
        self.child = subprocess.Popen(
            # No watch on the parent once a second (parent_handle), no thread that saves history.
            [sys.executable, "-m", "ipykernel_launcher", "-f", file]
            + ["--IPKernelApp.parent_handle=0", "--HistoryManager.enabled=False", "--InteractiveShell.colors=NoColor"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )
        self.ended = os.pidfd_open(self.child.pid)
        context = zmq.Context()
        self.shell = context.socket(zmq.DEALER)
        self.iopub = context.socket(zmq.SUB)
        self.iopub.setsockopt(zmq.RCVHWM, 0)
        self.iopub.subscribe(b"")
        self.shell.connect(f"ipc://{base}-1")
        self.iopub.connect(f"ipc://{base}-2")
        self.poller = zmq.Poller()
        for source in (self.shell, self.iopub, self.ended):
            self.poller.register(source, zmq.POLLIN)

    def send(self, kind, content):
        message_id = secrets.token_hex(8)
        header = {"msg_id": message_id, "msg_type": kind, "session": self.session, "username": "", "version": "5.3"}
        header["date"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        frames = [json.dumps(part).encode() for part in (header, {}, {}, content)]
        self.shell.send_multipart([DELIMITER, self.sign(frames), *frames])
        return message_id

    def sign(self, frames):
        return hmac.new(self.key, b"".join(frames), hashlib.sha256).hexdigest().encode()

    def receive(self, source):
        """The next message as (type, id of its request, content), or None."""
        try:
            frames = source.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        at = frames.index(DELIMITER) + 2
        header, parent, _, content = (json.loads(frame) for frame in frames[at : at + 4])
        return header["msg_type"], parent.get("msg_id"), content

    def execute(self, code, silent):
        content = {"code": code, "silent": silent, "store_history": not silent, "user_expressions": {}}
        return self.send("execute_request", {**content, "allow_stdin": False, "stop_on_error": False})

    def wait_started(self):
        """Until it answers on both sockets: what it publishes before the subscription has arrived would be lost."""
        heard = set()
        while heard != {self.shell, self.iopub}:
            self.send("kernel_info_request", {})
            ready = dict(self.poller.poll(500))
            if self.ended in ready:
                return False
            for source in (self.shell, self.iopub):
                while self.receive(source):
                    heard.add(source)
        return True

    def wait_idle(self, message_id):
        """Until a request is done, with what it publishes dropped."""
        while True:
            ready = dict(self.poller.poll())
            while message := self.receive(self.iopub):
                if message[1] == message_id and message[0] == "status" and message[2]["execution_state"] == "idle":
                    return True
            while self.receive(self.shell):
                pass
            if self.ended in ready:
                return False

    def interrupt(self):
        try:
            os.killpg(self.child.pid, signal.SIGINT)
        except ProcessLookupError:
            pass

    def last_error(self):
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with code {self.child.wait()}"


class Bridge:
    def __init__(self, kernel):
        self.kernel = kernel
        self.current = None
        self.preparing = None
        self.status = "ok"
        self.count = None
        self.replied = False
        self.interrupted = False
        self.pending = b""
        self.listener = None

    def serve(self):
        poller = self.kernel.poller
        poller.register(0, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            while message := self.kernel.receive(self.kernel.iopub):
                self.published(*message)
            self.replies()
            if self.kernel.ended in ready:
                say(k="dead")
                return
            if 0 in ready and not self.asked() and not self.left(poller):
                return
            if self.listener is not None and self.listener.fileno() in ready:
                self.taken_up(poller)

    def left(self, poller):
        """The agent is gone: whether another one is waited for."""
        global out
        if not outlives:
            return False
        out, self.pending = None, b""
        poller.unregister(0)
        self.listener = listener
        poller.register(listener.fileno(), zmq.POLLIN)
        return True

    def taken_up(self, poller):
        global out
        agent, _ = self.listener.accept()
        os.dup2(agent.fileno(), 0)
        out = os.fdopen(os.dup(agent.fileno()), "w", encoding="utf-8")
        agent.close()
        poller.unregister(self.listener.fileno())
        self.listener = None
        poller.register(0, zmq.POLLIN)
        say(k="ready", pid=self.kernel.child.pid, busy=self.current is not None)

    def replies(self):
        while reply := self.kernel.receive(self.kernel.shell):
            if self.current is not None and reply[1] == self.current:
                self.replied = True

    def asked(self):
        try:
            data = os.read(0, 1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            return False
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["op"] == "run":
                self.status, self.count = "ok", None
                self.replied = self.interrupted = False
                self.current = self.kernel.execute(request["code"], False)
            elif request["op"] == "prepare":
                code = PREPARE % (request["set"], request["unset"], request["reseed"])
                self.preparing = self.kernel.execute(code, True)
            elif request["op"] == "warm":
                self.preparing = self.kernel.execute(WARM, True)
            elif request["op"] == "interrupt" and self.current is not None:
                self.interrupted = True
                # A kernel that has not begun with the code ignores it: then it is sent once it has.
                if self.count is not None:
                    self.kernel.interrupt()
        return True

    def has_reply(self):
        """An interrupt between a kernel's own steps ends a request without an error, but also without its reply."""
        self.replies()
        if not self.replied and self.kernel.shell.poll(500):
            self.replies()
        return self.replied

    def published(self, kind, request, content):
        idle = kind == "status" and content["execution_state"] == "idle"
        if idle and request == self.preparing:
            self.preparing = None
            say(k="prepared")
        if request is None or request != self.current:
            return
        if idle:
            if self.interrupted and self.status == "ok" and not self.has_reply():
                self.status = "interrupted"
            self.current = None
            say(k="done", status=self.status, n=self.count)
        elif kind == "execute_input":
            self.count = content["execution_count"]
            say(k="start", n=self.count)
            if self.interrupted:
                self.kernel.interrupt()
        elif kind == "stream":
            say(k="stderr" if content["name"] == "stderr" else "stdout", text=content["text"])
        elif kind in ("execute_result", "display_data"):
            say(k="result", main=kind == "execute_result", data=content["data"], refs={})
        elif kind == "error":
            self.status = "interrupted" if content["ename"] == "KeyboardInterrupt" else "error"
            trace = ANSI.sub("", "\n".join(content["traceback"]))
            say(k="error", name=content["ename"], value=content["evalue"], traceback=trace)


def main():
    # What the kernel and its children print by themselves must not end up between the lines.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener.bind(os.path.join(sys.argv[1], "agent"))
    listener.listen()
    kernel = Kernel(sys.argv[1])
    started = kernel.wait_started()
    if started and "--preload" in sys.argv:
        started = kernel.wait_idle(kernel.execute(PRELOAD, True))
    if not started:
        sys.exit(kernel.last_error())
    say(k="ready", pid=kernel.child.pid, busy=False)
    Bridge(kernel).serve()
    try:
        os.killpg(kernel.child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    # Without a farewell to sockets that may wait for nobody.
    out.flush()
    os._exit(0)


main()
