/** A program that speaks WebSocket, as people write them: it answers with what came, and with how often anything came. */

/** @param port where it listens */
export function socketProgram(port: number): string {
  return `
import asyncio, base64, hashlib, struct
count = 0
async def serve(reader, writer):
    global count
    head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin1").split("\\r\\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    if "sec-websocket-key" not in headers:
        body = str(count).encode()
        writer.write(b"HTTP/1.1 200 OK\\r\\nconnection: close\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
        await writer.drain()
        return writer.close()
    digest = hashlib.sha1((headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    accept = base64.b64encode(digest).decode()
    writer.write(("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
        "Sec-WebSocket-Accept: " + accept + "\\r\\n\\r\\n").encode())
    try:
        while True:
            first, second = await reader.readexactly(2)
            size = second & 127
            if size == 126:
                size, = struct.unpack(">H", await reader.readexactly(2))
            elif size == 127:
                size, = struct.unpack(">Q", await reader.readexactly(8))
            mask = await reader.readexactly(4)
            data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(await reader.readexactly(size)))
            kind = first & 15
            if kind == 9:
                writer.write(bytes([0x8A, len(data)]) + data)
            elif kind == 8:
                writer.write(bytes([0x88, len(data)]) + data)
                return
            elif kind == 1:
                count += 1
                answer = b"%d %s" % (count, data)
                length = bytes([len(answer)]) if len(answer) < 126 else struct.pack(">BQ", 127, len(answer))
                writer.write(b"\\x81" + length + answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", ${port})
    await server.serve_forever()
asyncio.run(main())
`;
}
