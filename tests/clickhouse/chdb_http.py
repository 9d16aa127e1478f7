#!/usr/bin/env python3
"""Today's ClickHouse, as PyPI's chdb has it in a process, behind what the crate `clickhouse` uses of its HTTP interface.

Queries are in the body, or in the parameter `query` in front of rows in the body. All other parameters are settings, but
for `database`, `default_format` and `query_id`, which is not kept. Errors are 500 with ClickHouse's text. One query runs at a time.
"""

import argparse
import os
import re
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb.session import Session

# What an INSERT with rows behind it ends with.
ROWS = re.compile(r"\s+FORMAT\s+(\w+)\s*$", re.IGNORECASE)


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Engine:
    def __init__(self, folder):
        self.folder = folder
        self.session = Session(os.path.join(folder, "data"))
        self.lock = threading.Lock()

    def run(self, sql, rows, database, output, settings):
        with self.lock:
            self.session.query(f"USE `{database}`")
            for name, value in settings.items():
                self.session.query(f"SET {name} = {quoted(value)}")
            try:
                return self.insert(sql, rows) if rows is not None else self.session.query(sql, output).bytes()
            finally:
                for name in settings:
                    self.session.query(f"SET {name} = DEFAULT")

    def insert(self, sql, rows):
        with tempfile.NamedTemporaryFile(dir=self.folder) as file:
            file.write(rows)
            file.flush()
            source = f" FROM INFILE {quoted(file.name)} FORMAT \\1"
            self.session.query(ROWS.sub(source, sql))
        return b""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of an answer are two writes, which must not wait for each other.
    disable_nagle_algorithm = True

    def body(self):
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            if len(parts[-1]) < size:
                raise ConnectionError("the body is cut off")
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self, status, content, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.answer(200, b"Ok.\n")

    def do_POST(self):
        try:
            body = self.body()
        except (ConnectionError, ValueError):
            self.close_connection = True
            return
        given = (self.headers.get("x-clickhouse-user") or "default", self.headers.get("x-clickhouse-key") or "")
        if given != self.server.account:
            text = f"Code: 516. DB::Exception: {given[0]}: Authentication failed: password is incorrect.\n"
            self.answer(403, text.encode(), X_ClickHouse_Exception_Code="516")
            return
        settings = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        sql = settings.pop("query", None)
        rows = body if sql is not None else None
        sql = body.decode() if sql is None else sql
        settings.pop("query_id", None)
        database = settings.pop("database", "default")
        output = settings.pop("default_format", "TabSeparated")
        try:
            content = self.server.engine.run(sql, rows, database, output, settings)
        except Exception as error:  # chdb raises different ones
            code = re.search(r"Code: (\d+)", str(error))
            self.answer(500, f"{error}\n".encode(), X_ClickHouse_Exception_Code=code[1] if code else "1002")
            return
        self.answer(200, content)

    def log_request(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--user", default="default")
    parser.add_argument("--password", default="")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    server.engine = Engine(options.folder)
    server.account = (options.user, options.password)
    server.serve_forever()


if __name__ == "__main__":
    main()
