"""Checkpoints survive what kills a program: `python3 -m unittest discover -s sdk/python -t sdk/python`."""

import http.server
import itertools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

from rouse import Checkpoint, CheckpointDamaged, CheckpointError, CheckpointNotFound, MirrorFailed
from rouse import checkpoint as module

JOB = """
import sys
from rouse import Checkpoint

checkpoint = Checkpoint("job", directory=sys.argv[1], mirror="off")
log = open(sys.argv[2], "a")
state = checkpoint.load(default={"step": 0, "sum": 0})
for step in range(state["step"] + 1, 11):
    log.write(f"{step}\\n")
    log.flush()
    state = {"step": step, "sum": state["sum"] + step, "pad": "x" * 20000}
    checkpoint.save(state, step=step)
    log.write(f"saved {step}\\n")
    log.flush()
print(state["sum"])
"""


def save_many(directory: str, count: int) -> None:
    checkpoint = Checkpoint("shared", directory=directory, keep=1000, mirror="off")
    for n in range(count):
        checkpoint.save({"pid": os.getpid(), "n": n})


class Killed(BaseException):
    """What no program catches."""


class CheckpointTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = folder.name
        self.checkpoint = Checkpoint("job", directory=folder.name, mirror="off")

    def path(self, version: int) -> str:
        return os.path.join(self.directory, "job", f"v{version:010d}.checkpoint")

    def test_what_was_saved_is_loaded(self) -> None:
        self.assertEqual(self.checkpoint.load(default="nothing"), "nothing")
        for value in ({"a": [1, "ü", None]}, b"\x00\xff\n", "text", 0, [], None):
            saved = self.checkpoint.save(value, step=3, meta={"model": "m"})
            self.assertEqual(Checkpoint("job", directory=self.directory, mirror="off").load(default="x"), value)
        found = self.checkpoint.read()
        self.assertEqual((found.version, found.step, found.meta, found.source), (6, 3, {"model": "m"}, "disk"))
        self.assertEqual(found.savedAt, saved.savedAt)

    def test_the_newest_five_stay(self) -> None:
        for n in range(8):
            self.checkpoint.save(n)
        self.assertEqual([one.version for one in self.checkpoint.list()], [8, 7, 6, 5, 4])
        self.assertEqual(self.checkpoint.load(version=5), 4)
        with self.assertRaises(CheckpointNotFound):
            self.checkpoint.load(version=3)

    def test_two_agents_have_nothing_in_common(self) -> None:
        other = Checkpoint("other", directory=self.directory, mirror="off")
        self.checkpoint.save("mine")
        self.assertIsNone(other.load())
        other.save("theirs")
        self.assertEqual((self.checkpoint.load(), other.load()), ("mine", "theirs"))
        os.makedirs(os.path.join(self.directory, "third"))
        os.link(self.path(1), os.path.join(self.directory, "third", "v0000000001.checkpoint"))
        with warnings.catch_warnings(record=True):
            self.assertIsNone(Checkpoint("third", directory=self.directory, mirror="off").load())

    def test_bad_input_names_all_that_is_wrong(self) -> None:
        with self.assertRaises(CheckpointError) as caught:
            Checkpoint("../x", keep=0, mirror="maybe")
        self.assertRegex(str(caught.exception), "name.*keep.*mirror")
        for name in ("", ".", "..", "a/b", "a\n", "é", "x" * 129):
            with self.assertRaises(CheckpointError):
                Checkpoint(name)
        for value, step in ((float("nan"), 1), (object(), 1), (1, -1), (1, 1.5), (1, True)):
            with self.assertRaises(CheckpointError):
                self.checkpoint.save(value, step=step)
        with self.assertRaises(CheckpointError):
            self.checkpoint.save(1, meta={"a": "x" * 70_000})
        self.assertEqual(self.checkpoint.list(), [])

    def test_a_file_cut_off_or_changed_at_any_byte_is_never_loaded(self) -> None:
        self.checkpoint.save({"step": 1})
        self.checkpoint.save({"step": 2}, step=2)
        with open(self.path(2), "rb") as file:
            whole = file.read()
        for at in range(len(whole)):
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
                with open(self.path(2), "wb") as file:
                    file.write(damaged)
                found = self.checkpoint.read()
                self.assertEqual((found.value, [one.version for one in found.skipped]), ({"step": 1}, [2]), at)
        with self.assertWarns(UserWarning):
            self.assertEqual(self.checkpoint.load(), {"step": 1})
        with self.assertRaises(CheckpointDamaged):
            self.checkpoint.load(version=2)
        self.assertEqual([(one.version, one.fault is None) for one in self.checkpoint.list()], [(2, False), (1, True)])
        self.assertEqual(self.checkpoint.save({"step": 2}).version, 3)
        self.assertEqual(self.checkpoint.load(), {"step": 2})

    def test_killed_at_any_call_of_the_system_it_has_the_old_or_the_new(self) -> None:
        names = ["open", "write", "fsync", "close", "link", "unlink", "listdir", "stat"]
        for kept in (1, 5):
            at = 0
            while True:
                at += 1
                directory = os.path.join(self.directory, f"{kept}-{at}")
                checkpoint = Checkpoint("job", directory=directory, keep=kept, mirror="off")
                checkpoint.save({"step": 1})
                if not self.killed_at(at, names, lambda: checkpoint.save({"step": 2, "pad": "x" * 100})):
                    break
                after = Checkpoint("job", directory=directory, mirror="off")
                self.assertIn(after.load()["step"], (1, 2))
                self.assertEqual(after.read().skipped, ())
                after.save({"step": 3})
                self.assertEqual(after.load()["step"], 3)
            self.assertGreater(at, 8)

    def killed_at(self, at: int, names: list, run) -> bool:
        """Whether the run came to its call number `at`: before it, or in the middle of writing, the program ends."""
        calls = [0]

        def dying(name, real):
            def call(*args, **kwargs):
                calls[0] += 1
                if calls[0] == at and name == "write":
                    real(args[0], bytes(args[1])[: random.randrange(len(args[1]))])
                if calls[0] >= at:
                    raise Killed()
                return real(*args, **kwargs)

            return call

        with mock.patch.multiple(module.os, **{name: dying(name, getattr(os, name)) for name in names}):
            try:
                run()
                return False
            except Killed:
                return True

    def test_all_is_on_the_disk_before_it_has_its_name(self) -> None:
        calls = []

        def noted(name, real):
            def call(*args, **kwargs):
                calls.append(name)
                return real(*args, **kwargs)

            return call

        self.checkpoint.save(1)
        names = ("write", "fsync", "link", "unlink")
        with mock.patch.multiple(module.os, **{name: noted(name, getattr(os, name)) for name in names}):
            self.checkpoint.save(2)
        self.assertEqual(calls, ["write", "fsync", "link", "fsync", "unlink"])

    def test_processes_that_save_at_once_have_versions_of_their_own(self) -> None:
        context = multiprocessing.get_context("fork")
        writers = [context.Process(target=save_many, args=(self.directory, 25)) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
            self.assertEqual(writer.exitcode, 0)
        shared = Checkpoint("shared", directory=self.directory, keep=1000, mirror="off")
        found = shared.list()
        self.assertEqual(sorted(one.version for one in found), list(range(1, 101)))
        self.assertEqual([one.fault for one in found if one.fault], [])

    def test_a_job_killed_at_any_instant_loses_one_step_at_most(self) -> None:
        kills = 0
        for seed in range(3):
            directory = os.path.join(self.directory, str(seed))
            log = os.path.join(self.directory, f"{seed}.log")
            # Each is given longer than the one before, so that it gets on where the CPUs are busy, too.
            for longest in itertools.count(1):
                job = subprocess.Popen(
                    [sys.executable, "-c", JOB, directory, log], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT}
                )
                # It has begun a step before it is killed, so that each start gets further.
                before = size_of(log)
                while size_of(log) == before and job.poll() is None:
                    time.sleep(0.001)
                time.sleep(random.random() * 0.002 * longest)
                job.send_signal(signal.SIGKILL)
                out, _ = job.communicate()
                if out:
                    break
                kills += 1
                with open(log) as file:
                    saved = [int(line.split()[1]) for line in file if line.startswith("saved")]
                found = Checkpoint("job", directory=directory, mirror="off").read()
                at = found.value["step"] if found else 0
                self.assertGreaterEqual(at, max(saved, default=0))
                self.assertEqual(found.skipped if found else (), ())
            self.assertEqual(out.strip(), b"55")
            with open(log) as file:
                begun = [int(line) for line in file if not line.startswith("saved")]
            # In order; each start goes on at the step after the last that was saved.
            self.assertEqual(sorted(set(begun)), list(range(1, 11)))
            self.assertTrue(all(after - before in (0, 1) for before, after in zip(begun, begun[1:])))
        self.assertGreater(kills, 0)

    def test_what_a_killed_save_left_is_removed_in_time(self) -> None:
        self.checkpoint.save(1)
        left, young = (os.path.join(self.directory, "job", name) for name in (".saving-1-a", ".saving-2-b"))
        for path in (left, young):
            open(path, "wb").close()
        os.utime(left, (0, 0))
        self.checkpoint.save(2)
        self.assertEqual((os.path.exists(left), os.path.exists(young)), (False, True))


class MirrorTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = folder.name
        self.kept = kept = {}
        self.asked = asked = []
        self.hang = hang = threading.Event()
        hang.set()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                asked.append(f"PUT {self.path}")
                hang.wait(10)
                kept[self.path] = data
                self.answer(200, b"{}")

            def do_GET(self) -> None:
                asked.append(f"GET {self.path}")
                data = kept.get(self.path.partition("?")[0])
                self.answer(404 if data is None else 200, data or b"")

            def answer(self, status: int, data: bytes) -> None:
                try:
                    self.send_response(status)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass

            def log_message(self, *_args) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.addCleanup(hang.set)
        url = f"http://127.0.0.1:{self.server.server_address[1]}/checkpoints"
        patch = mock.patch.dict(os.environ, {"ROUSE_CHECKPOINT_MIRROR": url})
        patch.start()
        self.addCleanup(patch.stop)

    def lose_the_disk(self) -> None:
        folder = os.path.join(self.directory, "job")
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))

    def test_what_the_disk_lost_comes_from_the_mirror_and_versions_go_on(self) -> None:
        checkpoint = Checkpoint("job", directory=self.directory)
        for step in (1, 2):
            self.assertTrue(checkpoint.save({"step": step}).mirrored)
        self.lose_the_disk()
        self.assertEqual(checkpoint.save({"step": 3}).version, 3)
        self.lose_the_disk()
        found = checkpoint.read()
        self.assertEqual((found.value, found.version, found.source), ({"step": 3}, 3, "mirror"))
        # It is on the disk again.
        self.assertEqual(Checkpoint("job", directory=self.directory, mirror="off").load(), {"step": 3})
        self.assertEqual(checkpoint.save({"step": 4}).version, 4)

    def test_a_damaged_newest_is_mended_from_the_mirror(self) -> None:
        checkpoint = Checkpoint("job", directory=self.directory)
        for step in (1, 2):
            checkpoint.save({"step": step})
        with open(os.path.join(self.directory, "job", "v0000000002.checkpoint"), "r+b") as file:
            file.truncate(90)
        found = checkpoint.read()
        self.assertEqual((found.value, found.source, found.skipped[0].version), ({"step": 2}, "mirror", 2))
        self.assertEqual([one.fault for one in checkpoint.list()], [None, None])

    def test_a_mirror_that_does_not_answer_holds_up_one_save_for_two_seconds(self) -> None:
        self.hang.clear()
        checkpoint = Checkpoint("job", directory=self.directory)
        with mock.patch.object(module, "MIRROR_SECONDS", 0.2):
            self.assertFalse(checkpoint.save(1).mirrored)
            self.assertFalse(checkpoint.save(2).mirrored)
        self.assertEqual(self.asked.count("PUT /checkpoints/job"), 1)
        self.assertEqual(checkpoint.load(), 2)

    def test_required_throws_and_off_asks_nothing(self) -> None:
        self.assertIsNone(Checkpoint("job", directory=self.directory, mirror="off").save(1).mirrored)
        self.assertEqual(self.asked, [])
        with mock.patch.dict(os.environ, {"ROUSE_CHECKPOINT_MIRROR": "http://127.0.0.1:1/x"}):
            with self.assertRaises(MirrorFailed):
                Checkpoint("job", directory=self.directory, mirror="required").save(2)
            self.assertFalse(Checkpoint("job", directory=self.directory).save(3).mirrored)
        self.assertEqual([one.version for one in Checkpoint("job", directory=self.directory).list()], [3, 2, 1])


class CommandTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = folder.name

    def run_it(self, *words: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        env = {**os.environ, "ROUSE_CHECKPOINT_DIR": self.directory, "ROUSE_CHECKPOINT_MIRROR": "off"}
        # The file alone, as it is in a sandbox.
        return subprocess.run([sys.executable, module.__file__, *words], input=data, capture_output=True, env=env, timeout=60)

    def test_what_the_command_saves_the_module_loads(self) -> None:
        self.assertEqual(self.run_it("load", "job").returncode, 3)
        self.assertEqual(json.loads(self.run_it("load", "job", "--default", '{"step": 0}').stdout), {"step": 0})
        saved = self.run_it("save", "job", "--step", "7", data=b'{"step": 7}')
        self.assertEqual((saved.returncode, json.loads(saved.stdout)["step"]), (0, 7))
        self.assertEqual(Checkpoint("job", directory=self.directory, mirror="off").load(), {"step": 7})
        self.assertEqual(json.loads(self.run_it("load", "job").stdout), {"step": 7})
        self.run_it("save", "raw", data=b"\x00\x01")
        self.assertEqual(self.run_it("load", "raw").stdout, b"\x00\x01")
        self.assertEqual(json.loads(self.run_it("list", "job").stdout)["version"], 1)
        self.assertEqual(self.run_it("verify", "job").returncode, 0)
        with open(os.path.join(self.directory, "job", "v0000000001.checkpoint"), "ab") as file:
            file.write(b"x")
        self.assertEqual(self.run_it("verify", "job").returncode, 1)
        self.assertEqual(self.run_it("save", "../job").returncode, 2)


ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    unittest.main()
