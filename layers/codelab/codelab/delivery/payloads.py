"""Content that is too large for an item or a frame: objects of one bucket, under the prefix of their session.

Contents are written before the transaction that refers to them, under their digest. Writing one twice is harmless, and
one whose transaction failed is deleted with its session.

Uploads are frames of clients. A ticket needs no record: its URL is signed for one key, which contains the user, the
session, the size and the expiry, so a forged reference names no object. An upload is not deleted when its frame is
processed, because a crash before the transaction would lose it. The bucket's lifecycle deletes it. The same upload sent
again is a repeat of the same frame.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from codelab.aws.errors import sdk_errors
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import UploadTicket
from codelab.sessions import keys

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

#: Seconds for which a URL in a frame is valid. A frame that is posted again has a new URL.
URL_S = 3_600
#: Seconds for which an upload ticket is valid.
TICKET_S = 900

#: The expiry (ms), the size in bytes, and a random part.
_TICKET = re.compile(r"([0-9]{13})\.([0-9]{1,8})\.[0-9a-f]{24}")


class Payloads:
    """The bucket. Its methods raise AwsError.

    `client` is only called when needed, because making an S3 client takes longer than most frames.
    """

    def __init__(self, client: Callable[[], "S3Client"], bucket: str) -> None:
        self._client = client
        self._bucket = bucket
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="payload")

    @sdk_errors()
    def write(self, user: str, session_id: str, objects: Mapping[str, str]) -> None:
        """Write contents (JSON text by digest) in parallel."""

        def put(digest: str) -> None:
            self._client().put_object(
                Bucket=self._bucket,
                Key=keys.content_object(user, session_id, digest),
                Body=objects[digest].encode(),
                ContentType="application/json",
            )

        self._for_each(put, objects)

    @sdk_errors()
    def read(self, user: str, session_id: str, digest: str) -> str:
        """Read the JSON text of a content."""
        response = self._client().get_object(Bucket=self._bucket, Key=keys.content_object(user, session_id, digest))
        return response["Body"].read().decode()

    @sdk_errors()
    def url(self, user: str, session_id: str, digest: str) -> str:
        """A URL from which a client can fetch a content for `URL_S` seconds. Makes no request."""
        location = {"Bucket": self._bucket, "Key": keys.content_object(user, session_id, digest)}
        return self._client().generate_presigned_url("get_object", Params=location, ExpiresIn=URL_S)

    @sdk_errors()
    def delete(self, user: str, session_id: str) -> bool:
        """Delete up to a thousand objects of the session. Returns False if there may be more."""
        client = self._client()

        def delete(key: str) -> None:
            client.delete_object(Bucket=self._bucket, Key=key)

        for prefix in keys.object_prefixes(user, session_id):
            page = client.list_objects_v2(Bucket=self._bucket, Prefix=prefix)
            object_keys = [item["Key"] for item in page.get("Contents", [])]
            if object_keys:
                self._for_each(delete, object_keys)
            if page.get("IsTruncated"):
                return False
        return True

    @sdk_errors()
    def ticket(self, user: str, session_id: str, size: int, now: int, new_id: str) -> UploadTicket:
        """A ticket for a frame of `size` bytes. `now` is in milliseconds, `new_id` random.

        Raises ProtocolError PAYLOAD_TOO_LARGE.
        """
        if size > limits.PAYLOAD_BYTES:
            raise ProtocolError(
                ErrorCode.PAYLOAD_TOO_LARGE,
                f"The frame has {size} bytes; at most {limits.PAYLOAD_BYTES} are allowed",
                details={"field": "bytes"},
            )
        expires_at = now + 1000 * TICKET_S
        payload_ref = f"{expires_at}.{size}.{new_id}"
        # Signed with the URL: S3 accepts exactly this many bytes, and only once.
        url = self._client().generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self._bucket,
                "Key": keys.ticket_object(user, session_id, payload_ref),
                "ContentLength": size,
                "ContentType": "application/json",
                "IfNoneMatch": "*",
            },
            ExpiresIn=TICKET_S,
        )
        headers = {"Content-Length": str(size), "Content-Type": "application/json", "If-None-Match": "*"}
        return UploadTicket(payload_ref=payload_ref, url=url, headers=headers, expires_at=expires_at)

    @sdk_errors()
    def fetch(self, user: str, session_id: str, payload_ref: str, now: int) -> str:
        """Read an upload. `now` is in milliseconds.

        Raises ProtocolError: INVALID_ARGUMENTS (the same without a ticket, with another session's, and without an
        upload), PAYLOAD_TOO_LARGE, INVALID_FORMAT.
        """
        ticket = _TICKET.fullmatch(payload_ref)
        if ticket is None:
            raise _refusal("No upload with this payload_ref in this session")
        if int(ticket[1]) <= now:
            raise _refusal("The upload ticket has expired; send upload_request for a new one")
        from botocore.exceptions import ClientError

        try:
            response = self._client().get_object(
                Bucket=self._bucket, Key=keys.ticket_object(user, session_id, payload_ref)
            )
        except ClientError as error:
            # S3 answers 403 for a missing object to a role that may not list the bucket.
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (403, 404):
                raise
            raise _refusal("No upload with this payload_ref in this session") from None
        if response["ContentLength"] > int(ticket[2]):
            message = f"{ticket[2]} bytes were announced but {response['ContentLength']} were uploaded"
            raise ProtocolError(ErrorCode.PAYLOAD_TOO_LARGE, message, details={"field": "payload_ref"})
        try:
            return response["Body"].read().decode()
        except UnicodeDecodeError:
            raise ProtocolError(ErrorCode.INVALID_FORMAT, "The upload is not valid UTF-8") from None

    def _for_each(self, do: Callable[[str], None], names: Iterable[str]) -> None:
        names = list(names)
        if len(names) == 1:
            do(names[0])
        else:
            list(self._pool.map(do, names))


def _refusal(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_ARGUMENTS, message, details={"field": "payload_ref"})
