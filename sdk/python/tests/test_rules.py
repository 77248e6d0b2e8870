"""Rules without a server: when to try again, names, URLs, where a key goes, whose a webhook is."""

import datetime
import json
import os
import tempfile
import unittest
from unittest import mock

from rouse import InvalidRequestError, RouseError, verify_webhook
from rouse.credentials import find_credentials, parse_base_url
from rouse.cursor import OutputBuffer, OutputCursor
from rouse.errors import ConnectionError, ServiceUnavailableError
from rouse.inputs import CreateHook, UpdateSandbox
from rouse.named_url import path_form_of, redirect_target, url_of_port, within
from rouse.retry import RetryPolicy, RetryState, decide_retry
from rouse.wire import arguments, time_text, wire_name, wire_value


def error(code: str, status: int, after: "float | None" = None) -> RouseError:
    return ServiceUnavailableError(code, "m", status=status, retry_after_ms=after)


class RetryTest(unittest.TestCase):
    policy = RetryPolicy(4, random=lambda: 0.5)

    def test_backs_off_and_gives_up(self) -> None:
        waits = [decide_retry(error("x", 502), RetryState(retries=n), self.policy) for n in range(5)]
        self.assertEqual([one and one[1] for one in waits], [250, 500, 1000, 2000, None])

    def test_the_server_says_when(self) -> None:
        self.assertEqual(decide_retry(error("x", 503, 700), RetryState(), self.policy), ("retries", 700))
        self.assertEqual(decide_retry(error("x", 503, 99_000), RetryState(), self.policy), ("retries", 30_000))

    def test_what_is_final_is_not_tried_again(self) -> None:
        for one in (error("wake_failed", 502), error("invalid_request", 400), error("internal_error", 500)):
            self.assertIsNone(decide_retry(one, RetryState(), self.policy))

    def test_what_never_ran_is_sent_again_for_long(self) -> None:
        state = RetryState(retries=9, resends=9, elapsed_ms=299_000)
        self.assertEqual(decide_retry(error("sandbox_waking", 503, 100), state, self.policy), ("resends", 800))
        state.elapsed_ms = 300_000
        self.assertIsNone(decide_retry(error("sandbox_waking", 503, 100), state, self.policy))

    def test_room_is_waited_for_as_long_as_the_call_says(self) -> None:
        full = error("no_capacity", 409)
        self.assertIsNone(decide_retry(full, RetryState(), self.policy))
        patient = RetryPolicy(4, 10_000, random=lambda: 0.5)
        self.assertEqual(decide_retry(full, RetryState(capacity_waits=9), patient), ("capacity_waits", 8000))
        self.assertEqual(decide_retry(full, RetryState(elapsed_ms=9_900), patient), ("capacity_waits", 100))

    def test_no_answer_at_all(self) -> None:
        self.assertEqual(decide_retry(ConnectionError("connection_error", "m"), RetryState(), self.policy), ("retries", 250))


class WireTest(unittest.TestCase):
    def test_names(self) -> None:
        names = {"size_mib": "sizeMiB", "from_": "from", "on_lease_end": "onLeaseEnd", "vcpu": "vcpu", "sizeMiB": "sizeMiB"}
        for python, wire in names.items():
            self.assertEqual(wire_name(python), wire)

    def test_what_is_the_callers_is_left_alone(self) -> None:
        given = {"on_boot": {"timeout_seconds": 1, "env": {"a_b": "c_d"}}, "labels": {"a_b": "x"}}
        wanted = {"onBoot": {"timeoutSeconds": 1, "env": {"a_b": "c_d"}}, "labels": {"a_b": "x"}}
        self.assertEqual(wire_value(given), wanted)

    def test_none_is_not_given_but_where_the_wire_has_a_null(self) -> None:
        body, request = arguments(UpdateSandbox, {"name": None, "env": {"A": None}, "idempotency_key": "k"})
        self.assertEqual(request, {"idempotency_key": "k"})
        self.assertEqual(body["env"], {"A": None})
        with self.assertRaisesRegex(TypeError, "nothing_like_it"):
            arguments(UpdateSandbox, {"nothing_like_it": 1})
        with self.assertRaisesRegex(TypeError, "needs name, provider"):
            arguments(CreateHook, {})

    def test_times(self) -> None:
        zone = datetime.timezone(datetime.timedelta(hours=2))
        self.assertEqual(time_text(datetime.datetime(2031, 1, 2, 3, 4, 5, tzinfo=zone)), "2031-01-02T01:04:05.000Z")
        with self.assertRaises(InvalidRequestError):
            time_text(datetime.datetime(2031, 1, 2))


class UrlTest(unittest.TestCase):
    prefix = "http://localhost:8787/s/demo/8080/"
    named = "http://demo.localhost:8787/"

    def test_ports(self) -> None:
        self.assertEqual(url_of_port(self.named, 3000), "http://3000-demo.localhost:8787/")
        self.assertEqual(url_of_port("https://h/s/demo/8080/", 3000), "https://h/s/demo/3000/")
        self.assertEqual(path_form_of("https://h", self.named, 3000), "https://h/s/demo/3000/")
        for port in (0, 65_536):
            with self.assertRaises(InvalidRequestError):
                url_of_port(self.named, port)

    def test_no_path_leads_out(self) -> None:
        self.assertEqual(within(self.prefix, "/a/b?c=../d"), f"{self.prefix}a/b?c=../d")
        self.assertEqual(within(self.prefix, "//evil.example/x"), f"{self.prefix}evil.example/x")
        for path in ("/../x", "/a/%2E%2e/x", "/a\r\nb", "/a b", "\\\\x"):
            with self.assertRaises(InvalidRequestError):
                within(self.prefix, path)

    def test_redirects(self) -> None:
        current = f"{self.prefix}a/b"
        cases = {
            "/c?d=1": (f"{self.prefix}c?d=1", True),
            "c": (f"{self.prefix}a/c", True),
            "http://demo.localhost:8787/x": (f"{self.prefix}x", True),
            f"{self.prefix}y": (f"{self.prefix}y", True),
            "http://localhost:8787/v1/me": ("http://localhost:8787/v1/me", False),
            "http://localhost:8787/s/demo/8080/../../other/1/": ("http://localhost:8787/s/other/1/", False),
            "https://example.com/": ("https://example.com/", False),
            "//example.com/z": ("http://example.com/z", False),
        }
        for location, wanted in cases.items():
            self.assertEqual(redirect_target(location, current, self.prefix, self.named), wanted, location)


class OutputTest(unittest.TestCase):
    def test_no_byte_is_lost_or_seen_twice(self) -> None:
        cursor = OutputCursor()
        first = {"type": "stdout", "data": "aé", "offset": 0}
        self.assertEqual(cursor.accept(first), [first])
        cursor.join()
        self.assertEqual(cursor.accept(first), [])
        self.assertEqual(cursor.accept({"type": "stdout", "data": "éb", "offset": 1})[0]["data"], "b")
        late = cursor.accept({"type": "stdout", "data": "z", "offset": 9})
        self.assertEqual(late[0], {"type": "truncated", "droppedBytes": 5, "resumeAt": 9})

    def test_a_character_that_is_cut_is_left_out(self) -> None:
        buffer = OutputBuffer(4)
        buffer.add({"data": "ab🐎"})
        self.assertEqual((buffer.text(), buffer.truncated), ("ab", True))


class CredentialsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        clean = {"XDG_CONFIG_HOME": folder.name, "XDG_DATA_HOME": folder.name, "PATH": os.environ["PATH"]}
        patch = mock.patch.dict(os.environ, clean, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.file = os.path.join(folder.name, "rouse", "credentials.json")
        os.mkdir(os.path.dirname(self.file))

    def save(self, value: object, mode: int = 0o600) -> None:
        with open(self.file, "w") as file:
            json.dump(value, file)
        os.chmod(self.file, mode)

    def test_a_saved_login_goes_to_its_own_installation_alone(self) -> None:
        login = {"apiKey": "k1", "account": "a", "savedAt": "2031-01-02T03:04:05.000Z"}
        self.save({"version": 1, "current": "https://a.example", "logins": {"https://a.example": login}})
        found = find_credentials(None, None)
        self.assertEqual((found.base_url, found.api_key, found.source), ("https://a.example", "k1", "login"))
        self.assertEqual(find_credentials("k2", None).base_url, "http://localhost:8787")
        with self.assertRaises(RouseError) as raised:
            find_credentials(None, "https://b.example")
        self.assertEqual(raised.exception.code, "missing_api_key")

    def test_a_file_that_others_can_read_is_not_used(self) -> None:
        self.save({"version": 1, "logins": {}}, 0o640)
        with self.assertRaisesRegex(RouseError, "open to others"):
            find_credentials(None, None)
        os.unlink(self.file)
        os.symlink("/dev/null", self.file)
        with self.assertRaisesRegex(RouseError, "symbolic link"):
            find_credentials(None, None)

    def test_the_local_key_stays_on_this_machine(self) -> None:
        with open(os.path.join(os.path.dirname(self.file), "local-key"), "w") as file:
            json.dump({"apiKey": "k", "url": "http://localhost:9999"}, file)
        self.assertEqual(find_credentials(None, None).base_url, "http://localhost:9999")
        with self.assertRaises(RouseError):
            find_credentials(None, "https://b.example")

    def test_base_urls(self) -> None:
        self.assertEqual(parse_base_url("HTTPS://Rouse.example:443/"), "https://rouse.example")
        self.assertEqual(parse_base_url("http://[::1]:8787"), "http://[::1]:8787")
        for bad in ("ftp://localhost", "http://example.com", "https://h/api", "https://u:p@h", "nonsense", "https://h:x"):
            with self.assertRaises(InvalidRequestError, msg=bad):
                parse_base_url(bad)


class WebhookTest(unittest.TestCase):
    """By the example of the Standard Webhooks specification."""

    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    payload = '{"test": 2432232314}'
    headers = {
        "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "Webhook-Timestamp": "1614265330",
        "Webhook-Signature": "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    now = datetime.datetime.fromtimestamp(1614265330, datetime.timezone.utc)

    def test_a_right_one(self) -> None:
        found = verify_webhook(self.payload, self.headers, ["whsec_AAAA", self.secret], now=self.now)
        self.assertEqual((found.id, found.json()["test"]), ("msg_p5jXN8AQM9LWM0D4loKWxJek", 2432232314))
        self.assertEqual(found.sent_at, self.now)

    def test_wrong_ones(self) -> None:
        late = self.now + datetime.timedelta(seconds=301)
        cases = [
            (self.payload + " ", self.headers, self.secret, self.now, "signature_invalid"),
            (self.payload, {}, self.secret, self.now, "signature_invalid"),
            (self.payload, {**self.headers, "Webhook-Timestamp": "now"}, self.secret, self.now, "signature_invalid"),
            (self.payload, self.headers, self.secret, late, "signature_expired"),
            (self.payload, self.headers, "whsec_!", self.now, "invalid_argument"),
        ]
        for payload, headers, secret, now, code in cases:
            with self.assertRaises(RouseError) as raised:
                verify_webhook(payload, headers, secret, now=now)
            self.assertEqual(raised.exception.code, code)


if __name__ == "__main__":
    unittest.main()
