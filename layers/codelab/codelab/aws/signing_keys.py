"""KMS's keys that sign ("AWS KMS API Reference"): nobody can read their private part."""

import base64
from typing import Any

from codelab.aws.calls import JsonService


class SigningKeys:
    """Raises AwsError: AwsRefused with the service's code, AwsUnreachable."""

    def __init__(self) -> None:
        self._service = JsonService("kms", "TrentService", "application/x-amz-json-1.1")

    def public_key(self, arn: str) -> bytes:
        """The public key, as DER (SubjectPublicKeyInfo, RFC 5280)."""
        return self._bytes(self._service.call("GetPublicKey", {"KeyId": arn}), "PublicKey")

    def sign(self, arn: str, message: bytes) -> bytes:
        """The ECDSA signature of a message's SHA-256, as DER (RFC 3279, section 2.2.3). At most 4096 bytes."""
        request = {
            "KeyId": arn,
            "Message": base64.b64encode(message).decode(),
            "MessageType": "RAW",
            "SigningAlgorithm": "ECDSA_SHA_256",
        }
        return self._bytes(self._service.call("Sign", request), "Signature")

    @staticmethod
    def _bytes(answer: dict[str, Any], name: str) -> bytes:
        return base64.b64decode(answer[name])
