"""Content that is too large for an item or a frame: objects of one bucket, each under its session's own prefix.

Contents are written before the transaction that refers to them, under the digest of what is in them: writing one twice
is harmless, and one whose transaction failed dies with its session.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from codelab.sessions import keys

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

#: How long a URL in a frame can be fetched, in seconds. A frame that is posted again has a new one.
URL_S = 3_600


class Payloads:
    """The bucket. `client` is called when it is needed: making an S3 client takes longer than most frames."""

    def __init__(self, client: Callable[[], "S3Client"], bucket: str) -> None:
        self._client = client
        self._bucket = bucket
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="payload")

    def write(self, user: str, session_id: str, objects: Mapping[str, str]) -> None:
        """Write contents, given by digest, beside each other."""

        def put(digest: str) -> None:
            self._client().put_object(
                Bucket=self._bucket,
                Key=keys.content_object(user, session_id, digest),
                Body=objects[digest].encode(),
                ContentType="application/json",
            )

        self._each(put, objects)

    def read(self, user: str, session_id: str, digest: str) -> str:
        """The JSON text of a content."""
        found = self._client().get_object(Bucket=self._bucket, Key=keys.content_object(user, session_id, digest))
        return found["Body"].read().decode()

    def url(self, user: str, session_id: str, digest: str) -> str:
        """Where a client can fetch a content for the next hour. Nothing is asked of S3 for it."""
        where = {"Bucket": self._bucket, "Key": keys.content_object(user, session_id, digest)}
        return self._client().generate_presigned_url("get_object", Params=where, ExpiresIn=URL_S)

    def erase(self, user: str, session_id: str) -> bool:
        """Delete up to a thousand objects of the session. False if there may be more of them."""
        client = self._client()

        def delete(key: str) -> None:
            client.delete_object(Bucket=self._bucket, Key=key)

        for prefix in keys.object_prefixes(user, session_id):
            page = client.list_objects_v2(Bucket=self._bucket, Prefix=prefix)
            found = [item["Key"] for item in page.get("Contents", [])]
            if found:
                self._each(delete, found)
            if page.get("IsTruncated"):
                return False
        return True

    def _each(self, do: Callable[[str], None], names: Iterable[str]) -> None:
        names = list(names)
        if len(names) == 1:
            do(names[0])
        else:
            list(self._pool.map(do, names))
