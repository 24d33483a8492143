"""Azure reached by azure-identity's default credential: bearer tokens, no key and no SAS anywhere."""

from __future__ import annotations

import asyncio
import http.client
import os
import ssl
import sys
from collections.abc import Iterator, Sequence

import pytest
from azure.storage.blob.aio import BlobServiceClient

from tests.support.parts import require
from tests.support.servers import Azurite, make_certificates

# A process of its own: it must take the test authority's certificate for a good one from its start.
SCRIPT = """
import asyncio, base64, json, sys, time, types, uuid

class Credential:  # Azurite looks at the claims and lets any signature pass
    async def __aenter__(self): return self
    async def __aexit__(self, *_): pass
    async def close(self): pass
    async def get_token(self, *scopes, **_):
        assert scopes == ("https://storage.azure.com/.default",), scopes
        now = int(time.time())
        claims = {"aud": "https://storage.azure.com", "iss": f"https://sts.windows.net/{uuid.uuid4()}/",
                  "iat": now, "nbf": now - 60, "exp": now + 3600, "ver": "1.0"}
        parts = [{"alg": "none", "typ": "JWT"}, claims, {}]
        text = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
        return AccessToken(".".join(text), now + 3600)

from azure.core.credentials import AccessToken
sys.modules["azure.identity.aio"] = types.SimpleNamespace(DefaultAzureCredential=Credential)

from aioanalysis.settings import load
from aioanalysis.storage.azure import open_storage
from tests.support.storages import ABSENT, QUEUE, RESULTS, body, lease_id, names, read

async def main():
    url, queue, results = sys.argv[1:]
    settings = load(azure_account_url=url, queue_container=queue, results_container=results, _env_file=None)
    async with open_storage(settings) as storage:
        print(await storage.check())
        small = await storage.write(QUEUE, "a", b"hello", metadata={"n": "1"}, condition=ABSENT)
        await storage.write(RESULTS, "b", body(10))
        assert await read(storage, QUEUE, "a", start=1, etag=small.etag) == b"ello"
        assert len(await read(storage, RESULTS, "b")) == 10 * 1024 * 1024
        await storage.copy((QUEUE, "a"), (RESULTS, "claimed/a"), metadata={"n": "2"}, source_etag=small.etag)
        assert await read(storage, RESULTS, "claimed/a") == b"hello"
        lease = lease_id()
        await storage.acquire_lease(QUEUE, "a", lease, 15)
        assert await storage.delete(QUEUE, "a", lease=lease)
        assert await names(storage, RESULTS) == ["b", "claimed/a"]

asyncio.run(main())
"""


class TlsAzurite(Azurite):
    """Azurite that speaks TLS and takes bearer tokens, with a certificate made on the spot."""

    def __init__(self, program: str) -> None:
        super().__init__(program)
        self.ca_file = self.folder / "ca.pem"
        make_certificates(self.folder)

    def command(self) -> Sequence[str]:
        certificate = ("--cert", str(self.folder / "server.pem"), "--key", str(self.folder / "server.key"))
        return (*super().command(), "--oauth", "basic", *certificate)

    def answers(self) -> bool:
        context = ssl.create_default_context(cafile=self.ca_file)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=2, context=context)
        try:
            connection.request("GET", f"/{self.account}?comp=list")
            return connection.getresponse().status > 0
        finally:
            connection.close()

    @property
    def endpoint(self) -> str:
        return super().endpoint.replace("http:", "https:")


@pytest.fixture(scope="module")
def tls_azurite() -> Iterator[TlsAzurite]:
    with TlsAzurite(require("azurite")) as server:
        yield server


async def test_the_default_credential_is_enough_for_all(tls_azurite: TlsAzurite, unique: str) -> None:
    string = tls_azurite.connection_string.replace("http", "https")
    async with BlobServiceClient.from_connection_string(
        string, connection_verify=str(tls_azurite.ca_file)
    ) as service:
        for name in (f"{unique}-q", f"{unique}-r"):
            await service.create_container(name)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-c", SCRIPT, tls_azurite.endpoint, f"{unique}-q", f"{unique}-r"),
        env={**os.environ, "SSL_CERT_FILE": str(tls_azurite.ca_file)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    assert f"account {tls_azurite.account} at 127.0.0.1" in out.decode()
