"""Our signature is the SDK's."""

import datetime
from unittest.mock import patch

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from codelab.aws.session import Keys
from codelab.aws.signing import signed_headers
from codelab.wiring import bedrock_signature
from hypothesis import example, given
from hypothesis import strategies as st

SEGMENT = st.text(st.sampled_from("aZ09-._~%=@+:$&,;"), min_size=1, max_size=8).filter(lambda it: it.strip("."))
PATHS = st.lists(SEGMENT, max_size=4).map(lambda parts: "/" + "/".join(parts))
VALUE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12).map(str.strip)
NAMES = st.sampled_from(
    ["Content-Type", "X-Amz-Target", "X-Amzn-Trace-Id", "User-Agent", "amz-sdk-request", "x-a", "Host"]
)
TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


@given(
    keys=st.builds(Keys, TEXT, TEXT, st.none() | TEXT),
    service=st.sampled_from(["dynamodb", "lambda", "execute-api", "secretsmanager"]),
    method=st.sampled_from(["POST", "DELETE"]),
    path=PATHS,
    headers=st.dictionaries(NAMES, VALUE),
    body=st.binary(max_size=64),
    clock=st.integers(0, 2**32),
)
@example(Keys("A", "s", None), "execute-api", "POST", "/v1/@connections/a%3D", {"X-A": " a   b "}, b"", 0)
def test_the_signature_is_the_sdks(
    keys: Keys, service: str, method: str, path: str, headers: dict[str, str], body: bytes, clock: int
) -> None:
    headers = {**headers, "Host": "example.com"}
    ours = signed_headers(keys, service, "eu-west-1", method, path, headers, body, clock)
    request = AWSRequest(method, f"https://example.com{path}", headers, body)
    now = datetime.datetime.fromtimestamp(clock, datetime.UTC)
    with patch.object(auth, "get_current_datetime", lambda: now):
        auth.SigV4Auth(ReadOnlyCredentials(*keys), service, "eu-west-1").add_auth(request)
    assert {name.lower(): value for name, value in ours.items()} == {
        name.lower(): value for name, value in request.headers.items()
    }


def test_bedrock_is_signed_for_the_region_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codelab.aws.signing.credentials", lambda: lambda: Keys("AKIDEXAMPLE", "secret", "token"))
    monkeypatch.setattr("codelab.aws.signing.region", lambda: "us-east-1")
    for url, region in (
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://bedrock.example", "us-east-1"),
    ):
        headers = bedrock_signature(url)("POST", "/model/m/converse-stream", {}, b"{}")
        assert f"/{region}/bedrock/aws4_request" in headers["Authorization"]
