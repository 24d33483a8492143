"""Real server processes for tests: each on a free loopback port, with its own data, ended by its pid."""

from __future__ import annotations

import base64
import datetime
import http.client
import ipaddress
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.waiting import until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server(ABC):
    """One server process. Port and data stay the same over `kill`, `stop` and `start`."""

    start_within = 30.0
    stop_within = 10.0

    def __init__(self, program: str) -> None:
        self.program = program
        self.port = free_port()
        # Short, for unix sockets' sake.
        self.folder = Path(tempfile.mkdtemp(prefix="aa-"))
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves already; an OSError means no."""

    def environment(self) -> dict[str, str]:
        return {}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        """Start it (again), and wait until it answers."""
        assert self._process is None
        # A pytest that is killed takes its servers along; Ctrl-C is for pytest alone.
        prefix = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*prefix, *self.command()],
                cwd=self.folder,
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._is_ready, within=self.start_within, what=f"{self.program} answers")

    def _is_ready(self) -> bool:
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            self._process = None
            raise RuntimeError(f"{self.program} ended with {code}: {self.log[-2000:]}")
        try:
            return self.answers()
        except OSError as error:
            raise AssertionError(repr(error)) from error

    def stop(self) -> None:
        """End it in order: what it acknowledged is kept."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def suspend(self) -> None:
        """Freeze it: connections stay, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _end(self, sign: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(sign)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(self.stop_within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(self.stop_within)
            raise AssertionError(f"{self.program} did not end on {sign.name}") from None

    def __enter__(self) -> Self:
        try:
            try:
                self.start()
            except RuntimeError:  # another process may have taken the port meanwhile
                self.port = free_port()
                self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class RedisServer(Server):
    """redis-server or Valkey; with its append-only file, a killed one comes back with all it acknowledged."""

    def command(self) -> Sequence[str]:
        return [self.program, "--port", str(self.port), *self.options()]

    def options(self) -> list[str]:
        return [
            *("--bind", "127.0.0.1", "--dir", str(self.folder), "--unixsocket", f"{self.folder}/redis.sock"),
            *("--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"),
        ]

    def answers(self) -> bool:
        with self.connect() as connection:
            connection.sendall(b"INFO server\r\n")
            # Its pid, for another server may have been given the port.
            return f"process_id:{self.pid}\r\n".encode() in connection.recv(16 * 1024)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=1)

    @property
    def url(self) -> str:
        return self.through(self.port)

    @property
    def unix_url(self) -> str:
        return f"unix://{self.folder}/redis.sock"

    def through(self, port: int) -> str:
        """The address by way of a proxy on `port`."""
        return f"redis://127.0.0.1:{port}/0"


class TlsRedisServer(RedisServer):
    """redis-server that speaks TLS only, with a certificate of an authority made on the spot."""

    def __init__(self, program: str) -> None:
        super().__init__(program)
        self.ca_file = self.folder / "ca.pem"
        make_certificates(self.folder)

    def command(self) -> Sequence[str]:
        return [
            *(self.program, "--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"),
            *("--tls-ca-cert-file", str(self.ca_file), "--tls-cert-file", str(self.folder / "server.pem")),
            *("--tls-key-file", str(self.folder / "server.key"), *self.options()),
        ]

    def connect(self) -> socket.socket:
        context = ssl.create_default_context(cafile=self.ca_file)
        return context.wrap_socket(super().connect(), server_hostname="127.0.0.1")

    def through(self, port: int) -> str:
        return f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={self.ca_file}"


class Azurite(Server):
    """The blob service of Azurite, with an account and key of its own."""

    account = "aatest"

    def __init__(self, program: str) -> None:
        super().__init__(program)
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()

    def command(self) -> Sequence[str]:
        return (
            f"{self.program} --blobHost 127.0.0.1 --blobPort {self.port} --location {self.folder} "
            "--silent --skipApiVersionCheck --disableTelemetry"
        ).split()

    def environment(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}

    def answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", f"/{self.account}?comp=list")
            return connection.getresponse().status > 0
        finally:
            connection.close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.account}"

    @property
    def connection_string(self) -> str:
        return self.through(self.port)

    def through(self, port: int) -> str:
        """The connection string by way of a proxy on `port`."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={self.account};AccountKey={self.key};"
            f"BlobEndpoint=http://127.0.0.1:{port}/{self.account};"
        )


def make_certificates(folder: Path) -> None:
    """Write ca.pem, server.pem and server.key (for 127.0.0.1 and localhost, valid for a day)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("test authority"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    # Python 3.13 checks authorities strictly.
    signs_certificates = x509.KeyUsage(
        key_cert_sign=True,
        crl_sign=True,
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    authority = (
        certificate("test authority", ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .add_extension(signs_certificates, critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = (
        certificate("localhost", key.public_key())
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    (folder / "server.pem").write_bytes(server.public_bytes(pem))
    (folder / "server.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
