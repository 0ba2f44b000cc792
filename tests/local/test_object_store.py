"""S3 on the public port verifies signatures of SDKs and presigned URLs as S3 does."""

import time
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from codelab_local import LocalCloud

from tests.waiting import PATIENCE

#: A path with characters that are hard to encode. It must survive the round trip through a URL.
KEYS = ("shared/plain.txt", "also shared/a folder/ünï+code %2F&=?.txt", "shared/dots/..%2E/x")


def s3(cloud: LocalCloud, secret: str = "", key_id: str = "", endpoint: str = "") -> Any:
    """A client with the functions' keys, at the public address unless another is given."""
    make: Any = boto3.client
    return make(
        "s3",
        endpoint_url=f"{endpoint or cloud.http}/s3",
        region_name=cloud.info["region"],
        aws_access_key_id=key_id or cloud.info["access_key_id"],
        aws_secret_access_key=secret or cloud.info["secret_access_key"],
        aws_session_token="local",
        config=Config(signature_version="s3v4"),
    )


@pytest.fixture(scope="module")
def bucket(cloud: LocalCloud) -> str:
    names = [bucket["Name"] for bucket in cloud.client("s3").list_buckets()["Buckets"]]
    return next(name for name in names if "store" in name)


@pytest.mark.parametrize("key", KEYS)
def test_an_sdk_reads_what_it_wrote(cloud: LocalCloud, bucket: str, key: str) -> None:
    client = s3(cloud)
    client.put_object(Bucket=bucket, Key=key, Body=b"content", ContentType="text/plain")
    assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == b"content"
    assert client.get_object(Bucket=bucket, Key=key, Range="bytes=3-5")["Body"].read() == b"ten"
    head = client.head_object(Bucket=bucket, Key=key)
    assert (head["ContentLength"], head["ContentType"]) == (7, "text/plain")


@pytest.mark.parametrize("key", [*KEYS, "not public/x"])
def test_functions_can_use_all_of_s3(cloud: LocalCloud, bucket: str, key: str) -> None:
    client = s3(cloud, endpoint=cloud.info["internal"])
    client.put_object(Bucket=bucket, Key=key, Body=b"content", ContentType="text/plain")
    assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == b"content"
    assert key in {item["Key"] for item in client.list_objects_v2(Bucket=bucket, Prefix=key[:4])["Contents"]}
    client.delete_object(Bucket=bucket, Key=key)
    with pytest.raises(ClientError, match="NoSuchKey"):
        client.get_object(Bucket=bucket, Key=key)


@pytest.mark.parametrize("key", KEYS)
def test_a_presigned_url_only_does_what_it_was_signed_for(cloud: LocalCloud, bucket: str, key: str) -> None:
    client = s3(cloud)
    where = {"Bucket": bucket, "Key": key}
    put, get = (client.generate_presigned_url(operation, Params=where) for operation in ("put_object", "get_object"))
    assert httpx.put(put, content=b"content", timeout=PATIENCE).status_code == 200
    assert httpx.get(get, timeout=PATIENCE).content == b"content"
    for method, url in (("GET", put), ("PUT", get), ("DELETE", put), ("GET", f"{get}&versionId=1")):
        refused = httpx.request(method, url, timeout=PATIENCE)
        assert refused.status_code == 403
        assert "SignatureDoesNotMatch" in refused.text


def test_a_presigned_url_expires(cloud: LocalCloud, bucket: str) -> None:
    s3(cloud).put_object(Bucket=bucket, Key="shared/short", Body=b"x")
    url = s3(cloud).generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "shared/short"}, ExpiresIn=1)
    time.sleep(2.1)
    refused = httpx.get(url, timeout=PATIENCE)
    assert (refused.status_code, "Request has expired" in refused.text) == (403, True)


def test_missing_or_wrong_signatures_are_refused(cloud: LocalCloud, bucket: str) -> None:
    assert httpx.get(f"{cloud.http}/s3/{bucket}/shared/plain.txt", timeout=PATIENCE).status_code == 403
    for client, code in (
        (s3(cloud, secret="guessed"), "SignatureDoesNotMatch"),
        (s3(cloud, key_id="somebody"), "InvalidAccessKeyId"),
    ):
        with pytest.raises(ClientError, match=code):
            client.get_object(Bucket=bucket, Key="shared/plain.txt")
