// The program that real clients talk to, inside a sandbox. Beside it lies the package `ws`.
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import { WebSocketServer } from "ws";

const TEXT = "0123456789".repeat(1000);
const GZIP = gzipSync(TEXT);
/** How the last WebSocket ended, as its client said. */
let last = "";

const server = createServer((req, res) => {
  const url = new URL(req.url, "http://app");
  switch (url.pathname) {
    case "/range": {
      const [, from, to] = /bytes=(\d+)-(\d+)/.exec(req.headers.range ?? "") ?? [];
      if (from === undefined) return void res.writeHead(200, { "content-length": TEXT.length }).end(TEXT);
      const part = TEXT.slice(Number(from), Number(to) + 1);
      const headers = { "content-range": `bytes ${from}-${to}/${TEXT.length}`, "content-length": part.length };
      return void res.writeHead(206, headers).end(part);
    }
    case "/etag":
      if (req.headers["if-none-match"] === '"v1"') return void res.writeHead(304, { etag: '"v1"' }).end();
      return void res.writeHead(200, { etag: '"v1"' }).end("whole");
    case "/last-close":
      return void res.end(last);
    case "/gzip":
      return void res.writeHead(200, { "content-encoding": "gzip", "content-length": GZIP.length }).end(GZIP);
    case "/events": {
      res.writeHead(200, { "content-type": "text/event-stream" });
      let n = 0;
      const timer = setInterval(() => res.write(`id: ${++n}\ndata: ${Date.now()}\n\n`), 200);
      return void res.once("close", () => clearInterval(timer));
    }
    case "/down": {
      let left = Number(url.searchParams.get("mib"));
      const block = Buffer.alloc(1 << 20, "x");
      const more = () => {
        while (left-- > 0) if (!res.write(block)) return void res.once("drain", more);
        res.end();
      };
      return more();
    }
    default: {
      const hash = createHash("sha256");
      let bytes = 0;
      req.on("data", (chunk) => {
        bytes += chunk.length;
        hash.update(chunk);
      });
      req.on("end", () => {
        const body = { method: req.method, bytes, sha256: hash.digest("hex"), host: req.headers.host };
        res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
      });
    }
  }
});

const sockets = new WebSocketServer({ server, handleProtocols: (offered) => (offered.has("chat") ? "chat" : false) });
sockets.on("connection", (socket) => {
  socket.on("message", (data, isBinary) => {
    if (!isBinary && String(data).startsWith("close ")) return socket.close(4002, String(data).slice(6));
    socket.send(data, { binary: isBinary });
  });
  socket.on("close", (code, reason) => {
    last = `${code} ${reason}`;
  });
});

server.listen(8080, "127.0.0.1");
