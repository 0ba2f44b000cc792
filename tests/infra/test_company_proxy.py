"""Setup behind a company's TLS proxy: only this system trusts the authority that signed the index's certificate.

The tests run in a mount namespace in which the system trusts no other authority.
"""

import datetime
import functools
import os
import shutil
import ssl
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.processes import run

ROOT = Path(__file__).parents[2]
SYSTEM = Path("/etc/ssl/certs")


def _namespaces() -> bool:
    """Can a process have its own mounts here?"""
    return (
        (SYSTEM / "ca-certificates.crt").exists()
        and shutil.which("unshare") is not None
        and shutil.which("openssl") is not None
        and run("unshare", "-rm", "true").returncode == 0
    )


pytestmark = pytest.mark.skipif(not _namespaces(), reason="needs Linux with user namespaces, and Debian's certificates")


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(subject: str, key: Any, signed_by: Any, *extensions: tuple[Any, bool]) -> x509.Certificate:
    """A certificate by the company."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name("company"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=7))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(signed_by, hashes.SHA256())


def _authority_and_server(folder: Path) -> None:
    """`system`, in the form of update-ca-certificates, and `server.pem` with its key, signed by the company."""
    company, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    enciphers = dict.fromkeys(("key_encipherment", "data_encipherment", "encipher_only", "decipher_only"), False)
    usage = {"content_commitment": False, "key_agreement": False, **enciphers}
    signs = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage)
    identifier = x509.SubjectKeyIdentifier.from_public_key(company.public_key())
    authority = _certificate(
        "company", company, company, (x509.BasicConstraints(True, None), True), (signs, True), (identifier, False)
    )
    address = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    issued = x509.AuthorityKeyIdentifier.from_issuer_public_key(company.public_key())
    served = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
    constraints = x509.BasicConstraints(False, None)
    leaf = _certificate(
        "index", server, company, (address, False), (issued, False), (served, False), (constraints, True)
    )
    pem = serialization.Encoding.PEM
    system = folder / "system"
    system.mkdir()
    (system / "ca-certificates.crt").write_bytes(authority.public_bytes(pem))
    hashed = run("openssl", "x509", "-hash", "-noout", "-in", f"{system}/ca-certificates.crt", check=True)
    (system / f"{hashed.stdout.strip()}.0").symlink_to("ca-certificates.crt")
    private = server.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(private + leaf.public_bytes(pem))


def _wheel(index: Path, name: str, version: str, files: dict[str, str]) -> None:
    """A package for the index, with `files` by path in the wheel."""
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    (index / name).mkdir(parents=True)
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(index / name / wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    (index / name / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{wheel}">{wheel}</a></body></html>')


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """The address of an index with a fake `uv` and a package `company`."""
    _authority_and_server(tmp_path)
    served = tmp_path / "index"
    _wheel(served, "uv", "0.13.99", {"uv-0.13.99.data/scripts/uv": "#!python\nprint('hello')\n"})
    _wheel(served, "company", "1.0", {"company.py": ""})

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    files = functools.partial(SimpleHTTPRequestHandler, directory=str(served))
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_port}/"
        server.shutdown()


def trusting_the_company(folder: Path, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in `folder` on a system that trusts only the company."""
    mounted = f'mount --bind "{folder.parent}/system" {SYSTEM} && exec "$@"'
    never = ("MAKE", "MFLAGS", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_", "UV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(never)}
    own = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1"}
    return run("unshare", "-rm", "sh", "-c", mounted, "sh", *command, cwd=folder, env={**kept, **own, **environment})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "infra").mkdir(parents=True)
    for name in ("Makefile", "infra/build.mk", "pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.deep
@pytest.mark.parametrize("pip", [{}, {"PIP_USE_DEPRECATED": "legacy-certs"}], ids=["as it is", "as it was until 24.2"])
def test_uv_installs_from_an_index_that_only_the_system_trusts(index: str, checkout: Path, pip: dict[str, str]) -> None:
    made = trusting_the_company(checkout, "make", ".uv/bin/uv", PIP_INDEX_URL=index, **pip)
    assert made.returncode == 0, made.stderr
    assert (checkout / ".uv/bin/uv").exists()


def test_uv_uses_the_systems_certificates(index: str, checkout: Path) -> None:
    """With the Makefile's setting it works, and without it fails."""
    install = f"{ROOT}/.uv/bin/uv pip install --python {ROOT}/.venv/bin/python --target here"
    (checkout / "probe.mk").write_text(f"probe:\n\t{install} --index-url {index} company\n")
    command = ("make", "-f", "Makefile", "-f", "probe.mk", "probe")
    refused = trusting_the_company(checkout, *command, UV_SYSTEM_CERTS="false")
    assert "certificate" in refused.stderr.lower() or "UnknownIssuer" in refused.stderr
    made = trusting_the_company(checkout, *command)
    assert made.returncode == 0, made.stderr
    assert (checkout / "here" / "company.py").exists()
