"""WebSockets by their rules: what a client sends, what it takes, and what it takes from nobody."""

import unittest
from typing import Dict, List

from rouse.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT
from rouse.frames import FrameFault, FrameReader, Handshake, Message, accept_of, close_frame, frame, masked


def served(kind: int, payload: bytes = b"", fin: bool = True) -> bytes:
    """A frame as servers send it."""
    size = len(payload)
    first = bytes([(0x80 if fin else 0) | kind])
    if size < 126:
        return first + bytes([size]) + payload
    if size < 65_536:
        return first + bytes([126]) + size.to_bytes(2, "big") + payload
    return first + bytes([127]) + size.to_bytes(8, "big") + payload


def messages_of(data: bytes, step: int = 0, most: int = 1_000_000) -> List[Message]:
    reader = FrameReader(most)
    found: List[Message] = []
    for at in range(0, len(data), step or len(data)):
        reader.add(data[at : at + (step or len(data))])
        while True:
            message = reader.next()
            if message is None:
                break
            found.append(message)
    return found


class SentTest(unittest.TestCase):
    def test_a_frame_is_masked_by_another_mask_each_time_and_has_the_shortest_length(self) -> None:
        masks = set()
        for size, head in ((0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10), (200_001, 10)):
            payload = bytes(n * 7 % 256 for n in range(size))
            sent = frame(BINARY, payload)
            self.assertEqual(sent[0], 0x80 | BINARY)
            self.assertEqual(sent[1], 0x80 | (size if head == 2 else 126 if head == 4 else 127))
            if head > 2:
                self.assertEqual(int.from_bytes(sent[2:head], "big"), size)
            mask = sent[head : head + 4]
            self.assertEqual(bytes(one ^ mask[n % 4] for n, one in enumerate(sent[head + 4 :])), payload)
            masks.add(mask)
        self.assertEqual(len(masks), 6)

    def test_twice_masked_is_the_same(self) -> None:
        for data in (b"", b"\0\0\0\0", b"abcdefg", bytes(range(256))):
            self.assertEqual(masked(masked(data, b"\x01\xff\x00\x80"), b"\x01\xff\x00\x80"), data)

    def test_codes_that_are_never_sent_are_not(self) -> None:
        for code, sent in ((4001, 4001), (1005, 1000), (1006, 1000)):
            data = close_frame(code)
            self.assertEqual(int.from_bytes(masked(data[6:], data[2:6]), "big"), sent)


class TakenTest(unittest.TestCase):
    def test_messages_in_fragments_and_in_pieces_of_any_size(self) -> None:
        large = bytes(range(256)) * 300
        stream = (
            served(TEXT, "grü".encode()[:3], fin=False)
            + served(PING, b"in between")
            + served(CONTINUATION, "grü".encode()[3:], fin=False)
            + served(CONTINUATION)
            + served(BINARY, large)
            + served(BINARY)
            + served(PONG)
            + served(CLOSE, (4001).to_bytes(2, "big") + b"the machine rests")
        )
        for step in (0, 1, 2, 3, 1000):
            found = messages_of(stream, step)
            self.assertEqual([one.kind for one in found], [PING, TEXT, BINARY, BINARY, PONG, CLOSE])
            self.assertEqual((found[0].data, found[1].text, found[2].data), (b"in between", "grü", large))
            self.assertEqual((found[3].data, found[5].code), (b"", 4001))

    def test_a_close_without_a_code(self) -> None:
        self.assertEqual(messages_of(served(CLOSE))[0].code, 1005)

    def test_what_came_before_a_fault_is_there(self) -> None:
        reader = FrameReader()
        reader.add(served(TEXT, b"good") + b"\xff\xff")
        message = reader.next()
        self.assertEqual(message and message.text, "good")
        self.assertRaises(FrameFault, reader.next)

    def test_what_breaks_a_rule(self) -> None:
        faults: Dict[str, bytes] = {
            "masked": b"\x82\x81\0\0\0\0x",
            "extension": b"\xc2\x01x",
            "unknown kind": b"\x83\x01x",
            "unknown kind 11": b"\x8b\x00",
            "too long, or a fragment": served(PING, b"x", fin=False),
            "itself is too long": b"\x89\x7e\x00\x7e",
            "continues no message": served(CONTINUATION, b"x"),
            "within another": served(TEXT, b"x", fin=False) + served(TEXT, b"y"),
            "not the shortest": b"\x82\x7e\x00\x7d",
            "the shortest": b"\x82\x7f" + (65_535).to_bytes(8, "big"),
            "shortest": b"\x82\x7f" + (1 << 63).to_bytes(8, "big"),
            "a code that there is not": served(CLOSE, b"\x03"),
            "code that there is not": served(CLOSE, (1005).to_bytes(2, "big")),
            "that there is not": served(CLOSE, (2000).to_bytes(2, "big")),
        }
        for reason, data in faults.items():
            with self.assertRaisesRegex(FrameFault, reason) as caught:
                messages_of(data)
            self.assertEqual(caught.exception.code, 1002, reason)

    def test_text_that_is_none(self) -> None:
        for data in (served(TEXT, b"\xff"), served(TEXT, b"\xc3"), served(CLOSE, (1000).to_bytes(2, "big") + b"\xff")):
            with self.assertRaises(FrameFault) as caught:
                messages_of(data)
            self.assertEqual(caught.exception.code, 1007)

    def test_a_message_that_is_too_long_is_refused_by_its_head(self) -> None:
        self.assertEqual(len(messages_of(served(BINARY, b"x" * 1000), most=1000)), 1)
        for data in (
            served(BINARY, b"x" * 1001)[:4],
            served(BINARY, b"x" * 600, fin=False) + served(CONTINUATION, b"x" * 401)[:4],
        ):
            with self.assertRaises(FrameFault) as caught:
                messages_of(data, most=1000)
            self.assertEqual(caught.exception.code, 1009)


class HandshakeTest(unittest.TestCase):
    def test_the_answer_of_the_standards_example(self) -> None:
        self.assertEqual(accept_of("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")

    def test_only_the_answer_to_the_own_key_is_good(self) -> None:
        handshake = Handshake()
        key = handshake.headers()["sec-websocket-key"]
        self.assertNotEqual(key, Handshake().headers()["sec-websocket-key"])
        good = {"connection": "keep-alive, Upgrade", "upgrade": "WebSocket", "sec-websocket-accept": accept_of(key)}
        self.assertIsNone(handshake.fault(good))
        for name, value in (
            ("connection", "close"),
            ("upgrade", "h2c"),
            ("sec-websocket-accept", accept_of("other")),
            ("sec-websocket-extensions", "permessage-deflate"),
            ("sec-websocket-protocol", "chat"),
        ):
            self.assertIsNotNone(handshake.fault({**good, name: value}), name)
        self.assertIsNotNone(handshake.fault({}))


if __name__ == "__main__":
    unittest.main()
