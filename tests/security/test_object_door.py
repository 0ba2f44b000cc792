"""`/s3` on the public port only reads and writes the payloads that a URL was signed for."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from codelab_local import LocalCloud

from tests.cases import cases
from tests.local.test_object_store import s3
from tests.security.raw import Answer, ask, keys, payload_bucket

#: Keys an attacker might have: formerly well-known ones and, to show that even they give no further access, those of
#: this run.
EVERYBODYS, THIS_STARTS = "everybody's keys", "this start's keys"
CONTENT = b"what somebody has stored"


def signed(
    cloud: LocalCloud,
    whose: str,
    target: str,
    *,
    method: str = "GET",
    service: str = "s3",
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    sent: bytes | None = None,
) -> Answer:
    """Send a request to exactly `target`, with a valid signature. `sent`: another body than the signed one."""
    port = cloud.info["port"]
    request = AWSRequest(method, f"http://127.0.0.1:{port}{target}", {**(headers or {})}, body)
    signer = S3SigV4Auth if service == "s3" else SigV4Auth
    used = keys(cloud) if whose == THIS_STARTS else Credentials("local", "local")
    signer(used, service, cloud.info["region"]).add_auth(request)
    kept = [(name, value) for name, value in request.headers.items() if name.lower() not in ("host", "content-length")]
    return ask(port, target, kept, method=method, body=body if sent is None else sent, host=f"127.0.0.1:{port}")


def presigned(store: Any, bucket: str, key: str = "items/u/s/one", operation: str = "get_object") -> str:
    """A URL for an object, without `key` for the one that is public."""
    url: str = store.generate_presigned_url(operation, {"Bucket": bucket, "Key": key})
    return url


@pytest.fixture(scope="module")
def bucket(demo_cloud: LocalCloud) -> Iterator[str]:
    """The payload bucket, with one object that is public and two that are not."""
    store, name = demo_cloud.client("s3"), payload_bucket(demo_cloud)
    keys = ("items/u/s/one", "other/one", "one", "itemsx")
    for key in keys:
        store.put_object(Bucket=name, Key=key, Body=CONTENT)
    yield name
    for key in keys:
        store.delete_object(Bucket=name, Key=key)


@cases("whose", [EVERYBODYS, THIS_STARTS])
@cases("path", ["/s3/", "/s3/x", "/s3/x/items/y"])
@cases(
    ("service", "target"),
    [
        ("dynamodb", "DynamoDB_20120810.ListTables"),
        ("secretsmanager", "secretsmanager.ListSecrets"),
        ("states", "AWSStepFunctions.ListStateMachines"),
        ("glue", "AWSGlue.GetJobs"),
        ("events", "AWSEvents.ListRules"),
    ],
)
def test_no_other_service_is_reachable(
    demo_cloud: LocalCloud, whose: str, path: str, service: str, target: str
) -> None:
    """The emulator would follow a target header, whatever the path is."""
    headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.1"}
    for method in ("POST", "PUT"):
        answer = signed(demo_cloud, whose, path, method=method, service=service, body=b"{}", headers=headers)
        assert answer.status == 403
        assert b"<Error>" in answer.body, "it comes from the public port, not from the emulator"


@cases("whose", [EVERYBODYS, THIS_STARTS])
@cases(
    ("method", "target"),
    [
        ("GET", "/s3/"),
        ("GET", "/s3/{bucket}"),
        ("GET", "/s3/{bucket}/"),
        ("GET", "/s3/{bucket}?list-type=2&prefix=items%2F"),
        ("GET", "/s3/{bucket}/items/"),
        ("GET", "/s3/codelab-local-code/source-is-run-in-place.zip"),
        ("GET", "/s3/codelab-local-code/items/x"),
        ("PUT", "/s3/another-bucket"),
        ("PUT", "/s3/{bucket}?acl"),
        ("PUT", "/s3/{bucket}?policy"),
        ("DELETE", "/s3/{bucket}/items/u/s/one"),
        ("DELETE", "/s3/{bucket}"),
        ("POST", "/s3/{bucket}/items/u/s/one"),
        ("POST", "/s3/{bucket}?delete"),
        ("POST", "/s3/{bucket}/items/u/s/one?uploads"),
        ("PATCH", "/s3/{bucket}/items/u/s/one"),
        ("GET", "/s3/{bucket}/items/u/s/one?acl"),
        ("GET", "/s3/{bucket}/items/u/s/one?acl="),
        ("GET", "/s3/{bucket}/items/u/s/one?tagging"),
        ("GET", "/s3/{bucket}/items/u/s/one?uploads"),
        ("GET", "/s3/{bucket}/items/u/s/one?versionId=null"),
        ("GET", "/s3/{bucket}/items/u/s/one?response-content-type=text%2Fhtml"),
        ("GET", "/s3/{bucket}/items/u/s/one?x-id=GetObject&acl"),
        ("PUT", "/s3/{bucket}/items/u/s/one?partNumber=1&uploadId=x"),
        ("PUT", "/s3/{bucket}/items/u/s/one?tagging"),
        ("GET", "/s3/{bucket}/one"),
        ("GET", "/s3/{bucket}/itemsx"),
        ("GET", "/s3/{bucket}/other/one"),
        ("GET", "/s3/{bucket}/items/../other/one"),
        ("GET", "/s3/{bucket}/items/./u/s/one"),
        ("GET", "/s3/{bucket}/items//u/s/one"),
        ("GET", "/s3/{bucket}//items/u/s/one"),
        ("GET", "/s3//{bucket}/items/u/s/one"),
        ("GET", "/s3/{bucket}/items/%2e%2e/other/one"),
        ("GET", "/s3/{bucket}/items%2F..%2Fother%2Fone"),
        ("GET", "/s3/{bucket}/items/..%2Fother/one"),
        ("GET", "/s3/{bucket}%2Fother%2Fone"),
        ("GET", "/s3/{bucket}/items/../../codelab-local-code/source-is-run-in-place.zip"),
        ("GET", "/s3/../{bucket}/items/u/s/one"),
        ("GET", "/s3/{bucket}/items/u/s/one%00"),
        ("GET", "/s3/{bucket}/items/u/s/one%0d%0aX-Amz-Target:%20x"),
        ("GET", "/s3/_ministack/health"),
        ("POST", "/s3/_ministack/reset"),
        ("GET", "/s3/2015-03-31/functions/"),
        ("POST", "/s3/2015-03-31/functions/x/invocations"),
    ],
)
def test_only_payloads_are_reachable(demo_cloud: LocalCloud, bucket: str, whose: str, method: str, target: str) -> None:
    answer = signed(demo_cloud, whose, target.format(bucket=bucket), method=method)
    assert answer.status == 403
    assert CONTENT not in answer.body
    assert b"<Error><Code>" in answer.body, "it comes from the public port, not from the emulator"


def test_requests_with_other_keys_are_refused(demo_cloud: LocalCloud, bucket: str) -> None:
    assert signed(demo_cloud, EVERYBODYS, f"/s3/{bucket}/items/u/s/one").status == 403
    assert signed(demo_cloud, EVERYBODYS, f"/s3/{bucket}/items/u/s/two", method="PUT", body=b"x").status == 403
    outsider = s3(demo_cloud, key_id="local", secret="local")
    assert httpx.get(presigned(outsider, bucket), timeout=60).status_code == 403


def test_every_start_has_new_keys(demo_cloud: LocalCloud, cloud: LocalCloud) -> None:
    for name in ("access_key_id", "secret_access_key"):
        assert demo_cloud.info[name] != cloud.info[name]
        assert len(demo_cloud.info[name]) >= 20


@cases(
    ("name", "value"),
    [
        ("x-amz-copy-source", "/{bucket}/other/one"),
        ("x-amz-acl", "public-read"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-target", "DynamoDB_20120810.ListTables"),
        ("x-amz-website-redirect-location", "https://evil.test"),
    ],
)
def test_headers_cannot_turn_an_upload_into_something_else(
    demo_cloud: LocalCloud, bucket: str, name: str, value: str
) -> None:
    """Copying would read any object, with valid keys and with or without a presigned URL."""
    headers, target = {name: value.format(bucket=bucket)}, f"/s3/{bucket}/items/u/s/copied"
    assert signed(demo_cloud, THIS_STARTS, target, method="PUT", headers=headers).status == 403
    store, copied = s3(demo_cloud), "items/u/s/copied"
    assert httpx.put(presigned(store, bucket, copied, "put_object"), headers=headers, timeout=60).status_code == 403
    assert httpx.get(presigned(store, bucket, copied), timeout=60).status_code == 404


def test_a_presigned_url_does_not_give_access_to_the_emulator(demo_cloud: LocalCloud, bucket: str) -> None:
    """The access key is in every frame with a URL, but it is useless without the secret."""
    url = httpx.URL(presigned(s3(demo_cloud), bucket))
    credential = url.params["X-Amz-Credential"].replace("/s3/", "/dynamodb/")
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature={'0' * 64}",
        "X-Amz-Target": "DynamoDB_20120810.ListTables",
        "X-Amz-Date": url.params["X-Amz-Date"],
    }
    assert httpx.post(demo_cloud.info["emulator"], json={}, headers=headers, timeout=60).status_code == 403
    target = str(url).replace(demo_cloud.http, "").replace("/s3/", "/")
    assert httpx.get(f"{demo_cloud.info['emulator']}{target}", timeout=60).status_code == 403


def test_a_body_must_match_its_signature(demo_cloud: LocalCloud, bucket: str) -> None:
    target = f"/s3/{bucket}/items/u/s/changed"
    answer = signed(demo_cloud, THIS_STARTS, target, method="PUT", body=b"signed", sent=b"forged")
    assert (answer.status, b"XAmzContentSHA256Mismatch" in answer.body) == (403, True)


def test_old_requests_cannot_be_replayed(demo_cloud: LocalCloud, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: datetime(2026, 1, 1))
    answer = signed(demo_cloud, THIS_STARTS, f"/s3/{bucket}/items/u/s/one")
    assert (answer.status, b"RequestTimeTooSkewed" in answer.body) == (403, True)


@pytest.mark.parametrize("origin", ["https://evil.test", "null"])
def test_a_foreign_page_gets_nothing_even_with_a_presigned_url(
    demo_cloud: LocalCloud, bucket: str, origin: str
) -> None:
    url = presigned(s3(demo_cloud), bucket)
    asking = {"Origin": origin, "Access-Control-Request-Method": "GET"}
    for answer in (
        httpx.get(url, headers={"Origin": origin}, timeout=60),
        httpx.options(url, headers=asking, timeout=60),
    ):
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


def test_uploads_are_never_served_as_pages(demo_cloud: LocalCloud, bucket: str) -> None:
    """It would have the origin of the REST API."""
    store, key, script = s3(demo_cloud), "items/u/s/page", b"<script>fetch('/api/v1/sessions')</script>"
    store.put_object(Bucket=bucket, Key=key, Body=script, ContentType="text/html")
    answer = httpx.get(presigned(store, bucket, key), timeout=60)
    assert answer.status_code == 200
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
