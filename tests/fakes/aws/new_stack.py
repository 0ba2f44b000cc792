"""The table, the bucket and the secret of a new stack in moto. Making them takes longer than most tests, so each test
but the first of a process has copies."""

import copy
from collections.abc import Mapping
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.s3.models import s3_backends
from moto.secretsmanager.models import secretsmanager_backends


class NewStack:
    """`secrets` are the values by their names."""

    def __init__(self, region: str, table: Mapping[str, Any], bucket: str, secrets: Mapping[str, str]) -> None:
        self._region, self._table, self._bucket, self._secrets = region, table, bucket, secrets
        self._made: list[dict[str, Any]] = []

    def make(self, clients: Mapping[str, Any]) -> None:
        """In an empty account. `clients` are the SDK's, by the names of their services."""
        stores: tuple[dict[str, Any], ...] = (
            dynamodb_backends[DEFAULT_ACCOUNT_ID][self._region].tables,
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets,
            secretsmanager_backends[DEFAULT_ACCOUNT_ID][self._region].secrets,
        )
        if self._made:
            for store, made in zip(stores, self._made, strict=True):
                store.update(_copied(made))
            s3_backends.bucket_accounts[self._bucket] = "aws", DEFAULT_ACCOUNT_ID
            return
        clients["dynamodb"].create_table(**self._table)
        where = {"LocationConstraint": self._region}
        clients["s3"].create_bucket(Bucket=self._bucket, CreateBucketConfiguration=where)
        for name, value in self._secrets.items():
            clients["secretsmanager"].create_secret(Name=name, SecretString=value)
        self._made = [_copied(store) for store in stores]


def _copied(store: Mapping[str, Any]) -> dict[str, Any]:
    """Whole: a copy of a table by `cheap_moto` shares what no transaction changes."""
    copies = {}
    for name, value in store.items():
        copies[name] = made = copy.copy(value)
        made.__dict__ = copy.deepcopy(vars(value))
    return copies
