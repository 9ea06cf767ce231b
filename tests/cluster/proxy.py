"""A link from one node to another that can be given bad weather, and that counts what goes over it.

It speaks HTTP/1.1, because a torn or miscounted answer is about answers, not about bytes. One `Link` is one direction:
the requests of one node to another and their answers. `weather` says what happens to them:

  fair            they pass
  slow            they pass, the answer `delay` seconds late
  cut             nobody listens: connections are refused, open ones are reset
  hole            connections are taken, requests are read, nothing comes back; they pass on when the weather turns
  mute            the same, but what was held is lost when the weather turns
  reset           the connection is reset when the request has been read
  html            200 and a page
  500, 503        that status and nothing
  half            the request passes, and half of the answer's body
  miscount        the request passes, and the answer lacks the last item of its list

`rate`, if it is set, is how many bytes a second pass, in each direction.
"""
import collections
import contextlib
import http.client
import gzip
import json
import socket
import struct
import threading
import time

PAGE = b"<!doctype html><html><body><h1>It works!</h1></body></html>"
PIECE = 16 << 10  # bytes that pass at once where there is a rate
HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Gone(Exception):
    """The client closed the connection."""


class Seen:
    """What went over a link."""

    def __init__(self):
        self.requests = 0
        self.sent_bytes = self.answered_bytes = 0  # heads included
        self.items = []  # (action, application, id) of batches that passed
        self.paths = collections.Counter()
        self.headers = []  # of the last few requests
        self.at = collections.deque(maxlen=1000)  # monotonic times of requests
        self.most_at_once = 0


class Link:
    """Listens on host:port for one node and passes its requests to `target`, a (host, port)."""

    def __init__(self, host, port, target):
        self.host, self.port, self.target = host, port, target
        self.weather, self.delay = "fair", 3.0
        self.rate = None
        self.seen = Seen()
        self._changed = threading.Condition()
        self._open = set()
        self._at_once = 0
        self._listener = None
        self._ended = False
        self._listen()

    def url(self, user=""):
        return f"http://{user}{self.host}:{self.port}/eureka/"

    def set(self, weather, delay=3.0):
        with self._changed:
            before, self.weather, self.delay = self.weather, weather, delay
            self._changed.notify_all()
        if weather == "cut":
            self._close()
        elif before == "cut":
            self._listen()

    def forget(self):
        """Counts anew."""
        self.seen = Seen()

    def end(self):
        self._ended = True
        self.set("cut")

    # ---- sockets ----------------------------------------------------------------------------------------------------
    def _listen(self):
        end = time.monotonic() + 5
        while True:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((self.host, self.port))
                break
            except OSError:
                listener.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        listener.listen(64)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            if self.weather == "cut":
                reset(sock)
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _close(self):
        if self._listener:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.shutdown(socket.SHUT_RDWR)

    # ---- requests ---------------------------------------------------------------------------------------------------
    def _serve(self, sock):
        upstream = http.client.HTTPConnection(*self.target, timeout=30)
        try:
            with sock.makefile("rb") as read:
                while True:
                    self._one(sock, read, upstream)
        except (Gone, OSError, ValueError, http.client.HTTPException):
            pass
        finally:
            self._open.discard(sock)
            upstream.close()
            with contextlib.suppress(OSError):
                sock.close()

    def _one(self, sock, read, upstream):
        method, path, headers, body, size = read_request(read)
        seen = self.seen
        if self.rate:
            time.sleep(size / self.rate)
        with self._changed:
            self._at_once += 1
            seen.most_at_once = max(seen.most_at_once, self._at_once)
        try:
            seen.requests += 1
            seen.sent_bytes += size
            seen.paths[path] += 1
            seen.headers = [*seen.headers[-9:], headers]
            seen.at.append(time.monotonic())
            self._weathered(sock, upstream, method, path, headers, body, seen)
        finally:
            with self._changed:
                self._at_once -= 1

    def _weathered(self, sock, upstream, method, path, headers, body, seen):
        weather = self.weather
        if weather in ("hole", "mute"):
            with self._changed:
                self._changed.wait_for(lambda: self.weather != weather, 60)
            weather = "reset" if weather == "mute" else self.weather
        if weather in ("cut", "reset"):
            reset(sock)
            raise Gone
        if weather in ("500", "503", "html"):
            status, page = (200, PAGE) if weather == "html" else (int(weather), b"")
            self._reply(sock, seen, status, {"Content-Type": "text/html"}, page)
            return
        if path.rstrip("/").endswith("peerreplication/batch"):
            seen.items += items_of(unpacked(headers, body))
        upstream.request(method, path, body or None, headers)
        answer = upstream.getresponse()
        answered = answer.read()
        answer_headers = {k: v for k, v in answer.getheaders() if k.lower() not in HOP}
        if weather == "slow":
            time.sleep(self.delay)
        if weather == "miscount":
            answered = without_last(unpacked(answer_headers, answered))
            answer_headers = {k: v for k, v in answer_headers.items() if k.lower() != "content-encoding"}
        self._reply(sock, seen, answer.status, answer_headers, answered, half=weather == "half")

    def _reply(self, sock, seen, status, headers, body, half=False):
        head = f"HTTP/1.1 {status} {http.client.responses.get(status, '')}\r\n"
        head += "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        if status not in (204, 304):
            head += f"Content-Length: {len(body)}\r\n"
        sent = head.encode("latin-1") + b"\r\n" + (body[:len(body) // 2] if half else body)
        step = PIECE if self.rate else len(sent)
        for at in range(0, len(sent), step):
            piece = sent[at:at + step]
            if self.rate:
                time.sleep(len(piece) / self.rate)
            sock.sendall(piece)
            seen.answered_bytes += len(piece)
        if half:
            raise Gone


def reset(sock):
    """Closes with RST."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()


def read_request(read):
    """(method, path, headers, body, bytes on the wire)."""
    line = read.readline()
    if not line:
        raise Gone
    size = len(line)
    method, path, _ = line.decode("latin-1").split(" ", 2)
    headers = {}
    while True:
        line = read.readline()
        size += len(line)
        if line in (b"\r\n", b""):
            break
        key, value = line.decode("latin-1").split(":", 1)
        headers[key] = value.strip()
    lower = {k.lower(): v for k, v in headers.items()}
    body = b""
    if lower.get("transfer-encoding", "").lower() == "chunked":
        while True:
            line = read.readline()
            length = int(line.split(b";")[0], 16)
            chunk = read.read(length)
            end = read.readline()
            size += len(line) + length + len(end)
            body += chunk
            if length == 0:
                break
    else:
        body = read.read(int(lower.get("content-length", 0)))
        size += len(body)
    headers = {k: v for k, v in headers.items() if k.lower() not in HOP}
    return method, path, headers, body, size


def unpacked(headers, body):
    """A body without its compression: nodes of our own kind pack what is long."""
    is_packed = any(k.lower() == "content-encoding" and v == "gzip" for k, v in headers.items())
    return gzip.decompress(body) if is_packed and body else body


def items_of(body):
    with contextlib.suppress(ValueError, AttributeError, KeyError, TypeError):
        return [(i.get("action"), i.get("appName"), i.get("id")) for i in json.loads(body)["replicationList"]]
    return []


def without_last(body):
    with contextlib.suppress(ValueError, KeyError, TypeError):
        answer = json.loads(body)
        answer["responseList"] = answer["responseList"][:-1]
        return json.dumps(answer).encode()
    return body
