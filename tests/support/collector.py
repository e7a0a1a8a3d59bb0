"""A local collector that speaks LangSmith's ingestion API: it records every run that a real client sends it."""

import email.parser
import email.policy
import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LIMITS = {
    "use_multipart_endpoint": True,
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
    "scale_up_qsize_trigger": 1_000,
    "scale_up_nthreads_limit": 4,
    "scale_down_nempty_trigger": 4,
}


class Collector:
    """The server. `runs` holds every run by id, its later patches merged in; `raw` all bytes that came."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.raw: list[bytes] = []
        self._lock = threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply({"version": "0.10.0", "batch_ingest_config": LIMITS})

            def do_POST(self) -> None:
                body = self._body()
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, self.headers.get("content-type", ""), body)
                self._reply({})

            do_PATCH = do_POST

            def _body(self) -> bytes:
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("content-length", 0)))
                chunks = []
                while size := int(self.rfile.readline(), 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(chunks)

            def _reply(self, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(202 if self.command != "GET" else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Requests are recorded, not printed."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> "Collector":
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def take(self, path: str, content_type: str, body: bytes) -> None:
        """One request: a batch as JSON, a multipart batch, or one run."""
        with self._lock:
            self.raw.append(body)
            if content_type.startswith("multipart/"):
                for name, value in _parts(content_type, body):
                    _event, run_id, *field = name.split(".")
                    self._merge({"id": run_id, **({field[0]: value} if field else value)})
                return
            value = json.loads(body or b"{}")
            for run in [*value.get("post", []), *value.get("patch", [])] if path.endswith("/batch") else [value]:
                self._merge(run)

    def _merge(self, run: dict[str, Any]) -> None:
        if "id" in run:
            known = self.runs.setdefault(run["id"], {})
            known.update({key: value for key, value in run.items() if value is not None})


def _parts(content_type: str, body: bytes) -> list[tuple[str, Any]]:
    """The JSON parts of a multipart body, by name."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    parsed = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    found = []
    for part in parsed.iter_parts():
        name = part.get_param("name", header="content-disposition")
        payload = part.get_payload(decode=True)
        if name and isinstance(payload, bytes):
            found.append((str(name), json.loads(payload)))
    return found
