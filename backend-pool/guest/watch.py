"""Watches a file or folder by inotify and writes what happens as lines of JSON.

The first argument is JSON: path, recursive, events, include, exclude, batchMs, maxWatches. The first line written is
"ready": from then on nothing is missed without being told. It ends when its input does.
"""

import ctypes
import errno
import json
import os
import re
import select
import stat
import struct
import sys
import time

ACCESS, MODIFY, ATTRIB, CLOSE_WRITE = 0x1, 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
UNMOUNT, Q_OVERFLOW, IGNORED, ISDIR = 0x2000, 0x4000, 0x8000, 0x40000000
ONLYDIR, DONT_FOLLOW, EXCL_UNLINK = 0x1000000, 0x2000000, 0x4000000
HEAD = struct.Struct("iIII")
# What a second may bring; the rest is counted and told as dropped.
RATE = 5000
# Of these one of many says as much as all of them.
JOINED = ("write", "chmod", "access")

libc = ctypes.CDLL(None, use_errno=True)


def translate(glob):
    """A pattern without a slash is one of names, at any depth."""
    parts, at = [] if "/" in glob else ["(?:.*/)?"], 0
    glob = glob.lstrip("/")
    while at < len(glob):
        if glob.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif glob.startswith("**", at):
            parts.append(".*")
            at += 2
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(glob[at], re.escape(glob[at])))
            at += 1
    return re.compile("".join(parts) + r"\Z", re.S)


class Watch:
    def __init__(self, asked):
        self.root = asked["path"]
        self.recursive = asked["recursive"]
        self.wanted = set(asked["events"])
        self.include = [translate(glob) for glob in asked["include"]]
        self.exclude = [translate(glob) for glob in asked["exclude"]]
        self.most = asked["maxWatches"]
        self.mask = MODIFY | CLOSE_WRITE | ATTRIB | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
        if "access" in self.wanted:
            self.mask |= ACCESS
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.paths, self.numbers = {}, {}
        self.is_dir = stat.S_ISDIR(os.stat(self.root).st_mode)
        self.limited = False
        self.batch, self.latest, self.moved = [], {}, {}
        self.second, self.count, self.dropped = 0, 0, 0
        self.ended = None
        if not self.add(self.root, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), self.root)
        if self.is_dir and self.recursive:
            self.scan(self.root, False)

    # Watches of the kernel

    def add(self, path, flags=ONLYDIR | DONT_FOLLOW):
        if len(self.paths) >= self.most:
            return self.limit()
        number = libc.inotify_add_watch(self.fd, os.fsencode(path), self.mask | EXCL_UNLINK | flags)
        if number < 0:
            # One that went meanwhile, or may not be read, is none.
            return self.limit() if ctypes.get_errno() == errno.ENOSPC else False
        self.forget(self.paths.get(number))
        self.paths[number], self.numbers[path] = path, number
        return True

    def limit(self):
        if not self.limited:
            self.limited = True
            say({"k": "limit", "watches": len(self.paths)})
        return False

    def forget(self, path):
        number = self.numbers.pop(path, None)
        if number is not None and self.paths.get(number) == path:
            del self.paths[number]

    def below(self, path):
        return [one for one in self.numbers if one == path or one.startswith(path + "/")]

    def scan(self, folder, tell):
        """Folders in a folder, and what came into them before they were watched."""
        todo = [folder]
        while todo:
            try:
                entries = list(os.scandir(todo.pop()))
            except OSError:
                continue
            for entry in entries:
                try:
                    is_dir = entry.is_dir(follow_symlinks=False)
                except OSError:
                    continue
                if tell and self.latest.get(entry.path) != "create":
                    self.event("create", entry.path, is_dir)
                if is_dir and entry.path not in self.numbers and not self.is_excluded(entry.path):
                    if self.add(entry.path):
                        todo.append(entry.path)

    # Events

    def relative(self, path):
        return os.path.relpath(path, self.root) if path != self.root else os.path.basename(path)

    def is_excluded(self, path):
        name = self.relative(path)
        return any(one.match(name) for one in self.exclude)

    def is_meant(self, path):
        name = self.relative(path)
        return not any(one.match(name) for one in self.exclude) and (
            not self.include or any(one.match(name) for one in self.include)
        )

    def event(self, kind, path, is_dir, old=None):
        before = self.latest.get(path)
        self.latest[path] = kind
        if kind not in self.wanted or not (self.is_meant(path) or (old is not None and self.is_meant(old))):
            return
        if kind in JOINED and before == kind:
            for one in reversed(self.batch):
                if one["path"] == path and one["type"] == kind:
                    one["count"] = one.get("count", 1) + 1
                    return
        now = int(time.monotonic())
        if now != self.second:
            self.second, self.count = now, 0
        self.count += 1
        if self.count > RATE:
            self.dropped += 1
            return
        self.batch.append({"type": kind, "path": path, "isDir": is_dir, **({} if old is None else {"oldPath": old})})

    def read(self):
        try:
            data = os.read(self.fd, 1 << 18)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            number, mask, cookie, size = HEAD.unpack_from(data, at)
            name = os.fsdecode(data[at + HEAD.size : at + HEAD.size + size].rstrip(b"\0"))
            at += HEAD.size + size
            self.take(number, mask, cookie, name)

    def take(self, number, mask, cookie, name):
        if mask & Q_OVERFLOW:
            self.flush()
            say({"k": "overflow", "dropped": None, "reason": "kernel"})
            # Folders that were made in what is lost are to be watched all the same.
            if self.recursive and self.is_dir:
                self.scan(self.root, False)
            return
        folder = self.paths.get(number)
        if folder is None:
            return
        if mask & IGNORED:
            self.forget(folder)
            return
        is_dir = bool(mask & ISDIR)
        path = os.path.join(folder, name) if name else folder
        if mask & (DELETE_SELF | MOVE_SELF | UNMOUNT):
            # Of folders below, their parents tell.
            if folder == self.root and not self.ended:
                self.event("remove", path, self.is_dir)
                self.ended = "root-removed"
            return
        if mask & MOVED_FROM:
            self.moved[cookie] = (path, is_dir)
        elif mask & MOVED_TO:
            self.arrive(path, is_dir, self.moved.pop(cookie, None))
        elif mask & CREATE:
            if self.latest.get(path) != "create":
                self.event("create", path, is_dir)
            self.enter(path, is_dir)
        elif mask & DELETE:
            self.event("remove", path, is_dir)
        elif mask & (MODIFY | CLOSE_WRITE):
            self.event("write", path, is_dir)
        elif mask & ATTRIB:
            self.event("chmod", path, is_dir)
        elif mask & ACCESS:
            self.event("access", path, is_dir)

    def arrive(self, path, is_dir, source):
        if source is None:
            self.event("create", path, is_dir)
            self.enter(path, is_dir)
            return
        old, _ = source
        self.event("rename", path, is_dir, old)
        for one in self.below(old):
            number = self.numbers.pop(one)
            renamed = path + one[len(old) :]
            self.paths[number], self.numbers[renamed] = renamed, number
        # It may have come from where nothing was watched.
        if path not in self.numbers:
            self.enter(path, is_dir)

    def enter(self, path, is_dir):
        if is_dir and self.recursive and not self.is_excluded(path) and self.add(path):
            self.scan(path, True)

    def flush(self):
        for path, is_dir in self.moved.values():
            self.event("remove", path, is_dir)
            for one in self.below(path):
                libc.inotify_rm_watch(self.fd, self.numbers[one])
                self.forget(one)
        self.moved = {}
        if self.batch:
            say({"k": "events", "events": self.batch})
        if self.dropped:
            say({"k": "overflow", "dropped": self.dropped, "reason": "rate"})
        self.batch, self.latest, self.dropped = [], {}, 0


def say(line):
    # Names that are no text go as what is nearest to them.
    text = json.dumps(line, ensure_ascii=False) + "\n"
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def main():
    asked = json.loads(sys.argv[1])
    try:
        watch = Watch(asked)
    except OSError as fault:
        say({"k": "refused", "errno": errno.errorcode.get(fault.errno, "EIO"), "message": fault.strerror})
        return
    say({"k": "ready"})
    wait = asked["batchMs"] / 1000
    until = None
    while True:
        left = None if until is None else max(0, until - time.monotonic())
        ready, _, _ = select.select([watch.fd, 0], [], [], left)
        if 0 in ready and not os.read(0, 4096):
            return
        if watch.fd in ready:
            watch.read()
            if until is None:
                until = time.monotonic() + wait
        if watch.ended or (until is not None and time.monotonic() >= until):
            until = None
            watch.flush()
        if watch.ended:
            say({"k": "end", "reason": watch.ended})
            return


main()
