"""`SessionStore` over one DynamoDB table."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

from codelab.aws.dynamodb import DynamoDB
from codelab.aws.errors import AwsRefused, ConditionFailed
from codelab.sessions import keys
from codelab.sessions.approval_rules import ApprovalRules
from codelab.sessions.dynamodb.bulk import DynamoDBBulk
from codelab.sessions.dynamodb.kept_history import Kept, KeptHistory
from codelab.sessions.dynamodb.revocations import DynamoDBRevocations
from codelab.sessions.dynamodb.tally import DynamoDBTally
from codelab.sessions.dynamodb.values import from_dynamodb, items_from_dynamodb, items_to_dynamodb, to_dynamodb
from codelab.sessions.items import (
    AboutItem,
    CallItem,
    EventItem,
    FileItem,
    InputItem,
    InstructionsItem,
    MessageItem,
    SummaryItem,
    ToolsItem,
    rows_of,
)
from codelab.sessions.kept_reasoning import ReasoningItem
from codelab.sessions.register import Extent, Register
from codelab.sessions.spending import Slot
from codelab.sessions.store import Conflict, Conversation, Duplicate, Listed, SeqTaken, SlotTaken, StoredItem
from codelab.sessions.transition import Transition

#: The most keys that DynamoDB allows in one BatchGetItem.
_BATCH = 100
#: The calls that read a long history at once.
_PARALLEL = 5
#: The most entries of the due index that one call reads.
_DUE_AT_ONCE = 100


@cache
def _numbered(count: int) -> tuple[list[str], list[str], list[str]]:
    """Of an update of `count` attributes: the aliases of their names and values, and how each is set."""
    numbers = range(count)
    return [f"#{n}" for n in numbers], [f":{n}" for n in numbers], [f"#{n} = :{n}" for n in numbers]


@cache
def _readers() -> ThreadPoolExecutor:
    """Made when a process first reads so much; most never do."""
    return ThreadPoolExecutor(max_workers=_PARALLEL, thread_name_prefix="read")


class DynamoDBStore:
    """Has no state except the client, and the messages and summaries that it has read."""

    def __init__(self, client: DynamoDB, table: str) -> None:
        self._client = client
        self._table = table
        self._kept_history = KeptHistory()
        self.bulk = DynamoDBBulk(client, table)
        self.tally = DynamoDBTally(client, table)
        self.revocations = DynamoDBRevocations(client, table)

    # -- reads ---------------------------------------------------------------------------------------------------

    def read(self, pk: str) -> Register | None:
        answer = self._client.get_item(TableName=self._table, Key=_key(pk, keys.REGISTER), ConsistentRead=True)
        return Register.of(from_dynamodb(answer["Item"])) if "Item" in answer else None

    def read_with(self, pk: str, sort_keys: Iterable[str]) -> tuple[Register | None, dict[str, StoredItem | None]]:
        sort_keys = list(sort_keys)
        items = self.items(pk, [keys.REGISTER, *sort_keys])
        register = items.get(keys.REGISTER)
        return (Register.of(register) if register else None), {sk: items.get(sk) for sk in sort_keys}

    def items(self, pk: str, sort_keys: Sequence[str]) -> dict[str, StoredItem]:
        """Many are read in parallel, so that a long history takes one round trip."""
        batches = [sort_keys[start : start + _BATCH] for start in range(0, len(sort_keys), _BATCH)]
        read_batch = partial(self._batch, pk)
        parts = map(read_batch, batches) if len(batches) < 2 else _readers().map(read_batch, batches)
        return {sk: item for part in parts for sk, item in part.items()}

    def _batch(self, pk: str, sort_keys: Sequence[str]) -> dict[str, StoredItem]:
        items: dict[str, StoredItem] = {}
        request: Any = {self._table: {"Keys": [_key(pk, sk) for sk in sort_keys], "ConsistentRead": True}}
        while request:
            answer = self._client.batch_get_item(RequestItems=request)
            for item in items_from_dynamodb(answer["Responses"].get(self._table, [])):
                items[item["sk"]] = item
            request = answer.get("UnprocessedKeys") or {}
        return items

    def read_call(self, pk: str, call_id: str) -> tuple[Register | None, CallItem | None]:
        register, item = self._read_one(pk, keys.call_key(call_id))
        return register, CallItem.of(item) if item else None

    def read_about(self, pk: str) -> tuple[Register | None, AboutItem | None]:
        register, item = self._read_one(pk, keys.ABOUT)
        return register, AboutItem.of(item) if item else None

    def read_tools(self, pk: str) -> tuple[Register | None, ToolsItem]:
        register, item = self._read_one(pk, keys.TOOLS)
        return register, ToolsItem.of(item)

    def _read_one(self, pk: str, sk: str) -> tuple[Register | None, StoredItem | None]:
        register, items = self.read_with(pk, [sk])
        return register, items[sk]

    def abouts(self, user: str, session_ids: Sequence[str]) -> dict[str, AboutItem]:
        about_items: dict[str, AboutItem] = {}
        item_keys = [_key(keys.partition(user, session_id), keys.ABOUT) for session_id in session_ids]
        request: Any = {self._table: {"Keys": item_keys}} if item_keys else {}
        while request:
            answer = self._client.batch_get_item(RequestItems=request)
            for item in items_from_dynamodb(answer["Responses"].get(self._table, [])):
                about_items[keys.owner_and_session(item["pk"])[1]] = AboutItem.of(item)
            request = answer.get("UnprocessedKeys") or {}
        return about_items

    def calls(self, pk: str, call_ids: Iterable[str]) -> list[CallItem]:
        sort_keys = [keys.call_key(call_id) for call_id in call_ids]
        return [CallItem.of(item) for item in self.items(pk, sort_keys).values()] if sort_keys else []

    def message(self, pk: str, message_id: str) -> InputItem | None:
        return next((InputItem.of(item) for item in self.items(pk, [keys.input_key(message_id)]).values()), None)

    def history(self, pk: str, first: int, last: int) -> list[MessageItem]:
        items = self.items(pk, [keys.message_key(n) for n in range(first, last + 1)])
        return [MessageItem.of(items[sk]) for sk in sorted(items)]

    def conversation(
        self, pk: str, extent: Extent, limit: int, sort_keys: Iterable[str] = (), *, with_register: bool = False
    ) -> Conversation:
        sort_keys = list(sort_keys)
        registers = [keys.REGISTER] if with_register else []
        first = max(extent.summary_n, extent.history_n - limit) + 1
        # Only the register shows whether the session is still the one whose messages are kept.
        kept_history = self._kept_history.of(pk) if with_register else Kept()
        kept_messages = kept_history.of(first, extent.history_n)
        question = [keys.message_key(extent.turn_n)] if 0 < extent.turn_n < first else []
        messages = [keys.message_key(n) for n in range(first + len(kept_messages), extent.history_n + 1)]
        summary = kept_history.summary_of(extent.summary_n)
        summaries = [keys.summary_key(extent.summary_n)] if extent.summary_n and summary is None else []
        files = [keys.file_key(digest) for digest in extent.files]
        instructions = [keys.INSTRUCTIONS] if extent.instructions else []
        reasoning = [keys.reasoning_key(n) for n in extent.reasoning if n >= first]
        further_keys = [*instructions, *summaries, *files, *reasoning]
        items = self.items(pk, [*registers, *sort_keys, *further_keys, *question, *messages])
        register = next((Register.of(items[sk]) for sk in registers if sk in items), None)
        if (kept_messages or summary) and (register is None or register.created_at != kept_history.created_at):
            kept_messages, messages = [], [keys.message_key(n) for n in range(first, extent.history_n + 1)]
            summary, summaries = None, [keys.summary_key(extent.summary_n)] if extent.summary_n else []
            items |= self.items(pk, [*summaries, *messages])
        client = next((InstructionsItem.of(items[sk]) for sk in instructions if sk in items), InstructionsItem({}))
        summary = next((SummaryItem.of(items[sk]) for sk in summaries if sk in items), summary)
        history = [*kept_messages, *(MessageItem.of(items[sk]) for sk in messages if sk in items)]
        if register is not None and len(history) == len(kept_messages) + len(messages):
            self._kept_history.keep(pk, register.created_at, first, history, summary)
        file_items = [FileItem.of(items[sk]) for sk in files if sk in items]
        return Conversation(
            history=[*(MessageItem.of(items[sk]) for sk in question if sk in items), *history],
            turn_n=extent.turn_n,
            summary=summary,
            files=sorted(file_items, key=lambda file: (file.added_at, file.path)),
            items={sk: items.get(sk) for sk in sort_keys},
            instructions=client.files,
            environment=client.environment,
            register=register,
            reasoning={keys.reasoning_n(sk): ReasoningItem.of(items[sk]) for sk in reasoning if sk in items},
        )

    def files(self, register: Register) -> list[FileItem]:
        sort_keys = [keys.file_key(digest) for digest in register.files]
        items = self.items(register.pk, sort_keys) if sort_keys else {}
        return sorted(map(FileItem.of, items.values()), key=lambda file: (file.added_at, file.path))

    def events(self, pk: str, first: int, last: int, now: int) -> list[EventItem]:
        # DynamoDB deletes expired items hours to days late, so check their age here.
        items = self.items(pk, [keys.event_key(seq) for seq in range(first, last + 1)])
        return [event for event in (EventItem.of(items[sk]) for sk in sorted(items)) if event.ttl * 1000 > now]

    def log_end(self, pk: str, last_known: int) -> int:
        """Searches with strides that double, then within the gap that is left."""
        low = last_known
        while True:
            strides = [low + 2**power for power in range(16)]
            items = self.items(pk, [keys.event_key(seq) for seq in strides])
            present = [seq for seq in strides if keys.event_key(seq) in items]
            if not present:
                return low
            low = max(present)

    def listed(
        self, user: str, limit: int, before: tuple[int, str] | None = None
    ) -> tuple[list[Listed], tuple[int, str] | None]:
        request: Any = {
            "TableName": self._table,
            "IndexName": "sessions",
            "KeyConditionExpression": "#owner = :owner",
            "ExpressionAttributeNames": {"#owner": "owner"},
            "ExpressionAttributeValues": {":owner": {"S": user}},
            "ScanIndexForward": False,
            "Limit": limit,
        }
        if before is not None:
            last_activity, session_id = before
            position = {"owner": {"S": user}, "last_activity": {"N": str(last_activity)}}
            request["ExclusiveStartKey"] = {**_key(keys.partition(user, session_id), keys.REGISTER), **position}
        answer = self._client.query(**request)
        sessions = [
            Listed(keys.owner_and_session(item["pk"])[1], item.get("title", ""), item["last_activity"])
            for item in items_from_dynamodb(answer["Items"])
        ]
        has_more = bool(answer.get("LastEvaluatedKey")) and bool(sessions)
        return sessions, (sessions[-1].last_activity, sessions[-1].session_id) if has_more else None

    # -- writes --------------------------------------------------------------------------------------------------

    def commit(self, transition: Transition, on_wait: Callable[[], object] | None = None) -> None:
        """The client adds a ClientRequestToken to every transaction, so its own retry is harmless.

        If only the register is written, a single conditional update costs half as much. The client's retry of one that
        took effect is refused: a Conflict, after which the decision finds what it has written. So it must not start
        anything that the second decision would not start again.
        """
        transitions = (transition, *transition.family)
        writes = [write for change in transitions for write in self._writes(change)]
        try:
            if len(writes) == 1 and not transition.starts_something:
                self._client.update_item(**writes[0]["Update"])
            else:
                self._client.transact_write_items(TransactItems=writes, on_wait=on_wait)
        except AwsRefused as error:
            raise _why(error, transitions) or error from None
        for change in transitions:
            change.after.version += 1

    def _writes(self, transition: Transition) -> list[Any]:
        """The writes of a transition, without those of its family, in the order of `_subjects`."""
        after = transition.after
        update = self._register_update(transition)
        items = [*transition.puts, *transition.events]
        update["ExpressionAttributeValues"], *rows = items_to_dynamodb(
            [update["ExpressionAttributeValues"], *rows_of(items)]
        )
        writes: list[Any] = [{"Update": update}]
        for item, row in zip(items, rows, strict=True):
            put: dict[str, Any] = {"TableName": self._table, "Item": {"pk": {"S": after.pk}, **row}}
            if isinstance(item, ApprovalRules):
                put["Item"]["pk"] = {"S": keys.home(after.pk, item.key())}
                put |= _version_is(item.version - 1)
            elif not item.replaces:
                put["ConditionExpression"] = "attribute_not_exists(pk)"
            writes.append({"Put": put})
        writes += [{"Delete": {"TableName": self._table, "Key": _key(after.pk, sk)}} for sk in transition.deletes]
        if transition.relies_on is not None:
            rules = transition.relies_on
            check = {"TableName": self._table, "Key": _key(after.pk, rules.key()), **_version_is(rules.version)}
            writes.append({"ConditionCheck": check})
        if transition.slot is not None:
            writes.append(self._slot_write(after.pk, transition.slot))
        return writes

    def append(self, pk: str, event: EventItem) -> bool:
        """The client's retry of a successful append finds its own `write_id` and succeeds."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item=to_dynamodb({"pk": pk, **event.row()}),
                ConditionExpression="attribute_not_exists(pk)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except AwsRefused as error:
            if error.code == "TransactionConflictException":
                raise Conflict from None
            if not isinstance(error, ConditionFailed):
                raise
            return bool(event.write_id and error.item.get("write_id", {}).get("S") == event.write_id)
        return True

    def posted(self, register: Register, firsts: Sequence[int]) -> None:
        """Updates `due_at` only if the register has not changed, because `due_at` may be early but never late."""
        due_at = register.due_at(posted_firsts=firsts)
        names = {f"#{index}": f"post#{first}" for index, first in enumerate(firsts)}
        remove = "REMOVE " + ", ".join(names)
        values = {":version": {"N": str(register.version)}}
        if due_at is None:
            update = remove + ", due_at, due_shard"
        else:
            update = "SET due_at = :due " + remove
            values[":due"] = {"N": str(due_at)}
        guarded_update = {
            "UpdateExpression": update,
            "ConditionExpression": "version = :version",
            "ExpressionAttributeValues": values,
        }
        plain_update = {"UpdateExpression": remove, "ConditionExpression": "attribute_exists(pk)"}
        request: Any = {"TableName": self._table, "Key": _key(register.pk, keys.REGISTER)}
        for attempt in (guarded_update, plain_update):
            try:
                self._client.update_item(**request, **attempt, ExpressionAttributeNames=names)
                return
            except AwsRefused as error:
                if error.code not in ("ConditionalCheckFailedException", "TransactionConflictException"):
                    raise
        # Both attempts lost a race: the sweep posts the frames again, and clients drop them by their seq.

    def renew(self, register: Register, until: int) -> bool:
        """Updates `due_at` only if the register has not changed, as `posted` does."""
        due_at = replace(register, lease_until=until).due_at()
        token, ends = {":lease": {"S": register.lease}}, {":until": {"N": str(until)}}
        update_with_due_at = {
            "UpdateExpression": "SET lease_until = :until, due_at = :due",
            "ConditionExpression": "lease = :lease AND version = :version",
            "ExpressionAttributeValues": {
                **token,
                **ends,
                ":due": {"N": str(due_at)},
                ":version": {"N": str(register.version)},
            },
        }
        plain_update = {
            "UpdateExpression": "SET lease_until = :until",
            "ConditionExpression": "lease = :lease",
            "ExpressionAttributeValues": {**token, **ends},
        }
        request: Any = {"TableName": self._table, "Key": _key(register.pk, keys.REGISTER)}
        for attempt in (update_with_due_at, plain_update):
            try:
                self._client.update_item(**request, **attempt)
                return True
            except ConditionFailed:
                continue
            except AwsRefused as error:
                if error.code == "TransactionConflictException":
                    raise Conflict from None
                raise
        return False

    def remove(self, register: Register) -> None:
        with suppress(ConditionFailed):
            self._client.delete_item(
                TableName=self._table,
                Key=_key(register.pk, keys.REGISTER),
                ConditionExpression="version = :version",
                ExpressionAttributeValues={":version": {"N": str(register.version)}},
            )

    def unused(
        self, before: int, segment: tuple[int, int], position: StoredItem | None = None
    ) -> tuple[list[str], StoredItem | None]:
        answer = self._client.scan(
            TableName=self._table,
            IndexName="sessions",
            Segment=segment[0],
            TotalSegments=segment[1],
            ProjectionExpression="pk",
            FilterExpression="last_activity < :before",
            ExpressionAttributeValues={":before": {"N": str(before)}},
            **({"ExclusiveStartKey": position} if position else {}),
        )
        return [item["pk"]["S"] for item in answer["Items"]], answer.get("LastEvaluatedKey")

    # -- the due index -------------------------------------------------------------------------------------------

    def due(
        self, shard: str, now: int, position: StoredItem | None = None
    ) -> tuple[list[tuple[str, int]], StoredItem | None]:
        answer = self._client.query(
            TableName=self._table,
            IndexName="due",
            KeyConditionExpression="due_shard = :shard AND due_at <= :now",
            ExpressionAttributeValues={":shard": {"S": shard}, ":now": {"N": str(now)}},
            Limit=_DUE_AT_ONCE,
            **({"ExclusiveStartKey": position} if position else {}),
        )
        return [(item["pk"]["S"], int(item["due_at"]["N"])) for item in answer["Items"]], answer.get("LastEvaluatedKey")

    # -- parts ---------------------------------------------------------------------------------------------------

    def _register_update(self, transition: Transition) -> dict[str, Any]:
        """SET what changed and REMOVE what is gone; leave the other attributes, which another writer may change.

        The values are plain.
        """
        before, after = transition.before, transition.after
        due_at = after.due_at()
        new_values, removed_names = after.changes_since(before)
        attributes = [*new_values, *removed_names]
        aliases, placeholders, assignments = _numbered(len(attributes))
        names = dict(zip(aliases, attributes, strict=True))
        values: dict[str, Any] = dict(zip(placeholders, new_values.values(), strict=False))
        values[":next"] = after.version + 1
        sets = [*assignments[: len(new_values)], "version = :next"]
        removes = [*aliases[len(new_values) :]]
        # Always written, because a report of posted frames may have changed it since it was read.
        if due_at is None:
            removes += ["due_at", "due_shard"]
        else:
            sets += ["due_at = :due", "due_shard = :shard"]
            values |= {":due": due_at, ":shard": keys.due_shard(after.pk)}
        update = "SET " + ", ".join(sets)
        if removes:
            update += " REMOVE " + ", ".join(removes)
        if before is None:
            condition = "attribute_not_exists(pk)"
        else:
            condition = "version = :version"
            values[":version"] = before.version
        if before is not None and transition.takes_over:
            condition += " AND lease_until = :lease_until"
            values[":lease_until"] = before.lease_until
        request: dict[str, Any] = {
            "TableName": self._table,
            "Key": {"pk": {"S": after.pk}, "sk": {"S": keys.REGISTER}},
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": values,
        }
        if names:
            request["ExpressionAttributeNames"] = names
        return request

    def _slot_write(self, pk: str, slot: Slot) -> dict[str, Any]:
        """The condition fails if another session has the slot."""
        condition: dict[str, Any] = {
            "ConditionExpression": "attribute_not_exists(pk) OR #token = :token",
            "ExpressionAttributeNames": {"#token": "token"},
            "ExpressionAttributeValues": to_dynamodb({":token": slot.token}),
        }
        if not slot.until:
            return {"Delete": {"TableName": self._table, "Key": _key(pk, slot.key()), **condition}}
        if slot.taken_at:
            condition["ConditionExpression"] = "attribute_not_exists(pk) OR #until <= :now"
            condition["ExpressionAttributeNames"] = {"#until": "until"}
            condition["ExpressionAttributeValues"] = to_dynamodb({":now": slot.taken_at})
        item = to_dynamodb({"pk": keys.home(pk, slot.key()), **slot.row()})
        return {"Put": {"TableName": self._table, "Item": item, **condition}}


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": keys.home(pk, sk) if sk.startswith(keys.OF_USERS) else pk}, "sk": {"S": sk}}


def _version_is(version: int) -> dict[str, Any]:
    """The condition that an item has this version; 0: that it does not exist."""
    if version == 0:
        return {"ConditionExpression": "attribute_not_exists(pk)"}
    return {
        "ConditionExpression": "version = :version",
        "ExpressionAttributeValues": to_dynamodb({":version": version}),
    }


#: What a write is about: an item, by its sort key, or a slot.
_Subject = str | Slot


def _subjects(transition: Transition) -> list[_Subject]:
    """What each write of a transition is about, without those of its family."""
    subjects: list[_Subject] = [keys.REGISTER, *(item.key() for item in (*transition.puts, *transition.events))]
    subjects += transition.deletes
    if transition.relies_on is not None:
        subjects.append(transition.relies_on.key())
    if transition.slot is not None:
        subjects.append(transition.slot)
    return subjects


def _why(error: AwsRefused, transitions: Sequence[Transition]) -> Exception | None:
    """The exception for a refused transaction; None if it did not lose a race."""
    if isinstance(error, ConditionFailed):  # of a single update
        return Conflict()
    if error.code in ("TransactionConflictException", "TransactionInProgressException"):
        return Conflict()
    if error.code != "TransactionCanceledException":
        return None
    subjects = [subject for transition in transitions for subject in _subjects(transition)]
    pairs = zip(subjects, error.reasons, strict=False)
    failed_subjects = [subject for subject, code in pairs if code == "ConditionalCheckFailed"]
    failed_keys = [subject for subject in failed_subjects if isinstance(subject, str)]
    inputs = [key for key in failed_keys if key.startswith("INPUT#")]
    if inputs:
        return Duplicate(inputs[0])
    if keys.REGISTER in failed_keys or "TransactionConflict" in error.reasons:
        return Conflict()
    if any(key.startswith("EVENT#") for key in failed_keys):
        return SeqTaken()
    if failed_subjects and not failed_keys:
        return next(SlotTaken(subject.token) for subject in failed_subjects if isinstance(subject, Slot))
    return Conflict() if failed_subjects else None
