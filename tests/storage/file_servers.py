"""Small servers of SFTP and WebHDFS on this machine, for the files of a directory."""

import json
import os
import shutil
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import paramiko


class _SshServer(paramiko.ServerInterface):  # type: ignore[misc]
    def check_auth_password(self, username: str, password: str) -> int:
        return int(paramiko.AUTH_SUCCESSFUL)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return int(paramiko.OPEN_SUCCEEDED)


def _code_of(error: OSError) -> int:
    return int(paramiko.SFTPServer.convert_errno(error.errno))


class _SftpFiles(paramiko.SFTPServerInterface):  # type: ignore[misc]
    def list_folder(self, path: str) -> Any:
        try:
            return [
                paramiko.SFTPAttributes.from_stat(entry.stat(follow_symlinks=False), entry.name)
                for entry in os.scandir(path)
            ]
        except OSError as error:
            return _code_of(error)

    def stat(self, path: str) -> Any:
        try:
            return paramiko.SFTPAttributes.from_stat(os.stat(path))
        except OSError as error:
            return _code_of(error)

    lstat = stat

    def open(self, path: str, flags: int, attr: Any) -> Any:
        try:
            mode = "rb" if not flags & (os.O_WRONLY | os.O_RDWR) else "wb"
            file = os.fdopen(os.open(path, flags, 0o644), mode, buffering=0)
        except OSError as error:
            return _code_of(error)
        handle = paramiko.SFTPHandle(flags)
        handle.filename, handle.readfile, handle.writefile = path, file, file
        return handle

    def _do(self, change: Any, *paths: str) -> int:
        try:
            change(*paths)
        except OSError as error:
            return _code_of(error)
        return int(paramiko.SFTP_OK)

    def remove(self, path: str) -> int:
        return self._do(os.unlink, path)

    def rename(self, oldpath: str, newpath: str) -> int:
        done = self._do(os.link, oldpath, newpath)
        return done or self._do(os.unlink, oldpath)

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        return self._do(os.replace, oldpath, newpath)

    def mkdir(self, path: str, attr: Any) -> int:
        return self._do(os.mkdir, path)

    def rmdir(self, path: str) -> int:
        return self._do(os.rmdir, path)


@contextmanager
def sftp_server() -> Iterator[int]:
    """Run a server whose rename creates a hard link, as OpenSSH's does; yield its port."""
    key = paramiko.RSAKey.generate(2048)
    transports: list[Any] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                transport = paramiko.Transport(listener.accept()[0])
                transport.add_server_key(key)
                transport.set_subsystem_handler("sftp", paramiko.SFTPServer, _SftpFiles)
                transports.append(transport)
                with suppress(paramiko.SSHException, EOFError):
                    transport.start_server(server=_SshServer())

    with socket.create_server(("127.0.0.1", 0), backlog=32) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    for transport in transports:
        transport.close()


class _WebHdfs(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    renames = threading.Lock()
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"", location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer_json(self, node: Any) -> None:
        self._answer(200, json.dumps(node).encode())

    def _status(self, path: str, name: str) -> dict[str, Any]:
        found = os.stat(path)
        return {
            "pathSuffix": name,
            "type": "DIRECTORY" if stat.S_ISDIR(found.st_mode) else "FILE",
            "length": found.st_size,
            "modificationTime": int(found.st_mtime * 1000),
        }

    def _handle(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        path = unquote(address.path.removeprefix("/webhdfs/v1")).rstrip("/") or "/"
        words = {name: found[0] for name, found in parse_qs(address.query).items()}
        try:
            self._do(words["op"], path, words, data)
        except (FileNotFoundError, NotADirectoryError) as error:
            node = {"exception": "FileNotFoundException", "message": str(error)}
            self._answer(404, json.dumps({"RemoteException": node}).encode())
        except OSError as error:
            node = {"exception": "IOException", "message": str(error)}
            self._answer(403, json.dumps({"RemoteException": node}).encode())

    do_GET = do_PUT = do_POST = do_DELETE = _handle

    def _do(self, operation: str, path: str, words: dict[str, str], data: bytes) -> None:
        if operation == "GETFILESTATUS":
            self._answer_json({"FileStatus": self._status(path, "")})
        elif operation == "LISTSTATUS":
            names = sorted(os.listdir(path)) if os.path.isdir(path) else [""]
            found = [self._status(f"{path}/{name}" if name else path, name) for name in names]
            self._answer_json({"FileStatuses": {"FileStatus": found}})
        elif operation == "OPEN":
            with open(path, "rb") as file:
                file.seek(int(words.get("offset", 0)))
                self._answer(200, file.read(int(words.get("length", -1))))
        elif operation in ("CREATE", "APPEND") and "datanode" not in words:
            place = self.headers["Host"]
            self._answer(307, location=f"http://{place}{self.path}&datanode=true")
        elif operation == "CREATE":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb"):
                pass
            self._answer(201)
        elif operation == "APPEND":
            with open(path, "ab") as file:
                file.write(data)
            self._answer(200)
        elif operation == "RENAME":
            self._rename(path, words["destination"], replaces="renameoptions" in words)
        elif operation == "MKDIRS":
            os.makedirs(path, exist_ok=True)
            self._answer_json({"boolean": True})
        else:
            assert operation == "DELETE"
            there = os.path.lexists(path)
            if there:
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            self._answer_json({"boolean": there})

    def _rename(self, path: str, target: str, *, replaces: bool) -> None:
        with self.renames:
            if replaces:
                os.replace(path, target)
                self._answer(200)
                return
            is_free = not os.path.lexists(target) and os.path.exists(path)
            if is_free:
                os.rename(path, target)
        self._answer_json({"boolean": is_free})


@contextmanager
def webhdfs_server() -> Iterator[int]:
    """Run a name node that is its own data node; yield its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _WebHdfs)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
