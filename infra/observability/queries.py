"""Saved queries of CloudWatch Logs Insights. docs/operations.md names them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Query:
    """`functions` are those whose logs it reads; empty for all."""

    name: str
    text: str
    functions: tuple[str, ...] = ()


QUERIES = (
    Query(
        "errors",
        """\
fields @timestamp, @log, coalesce(message, @message) as what, exception, session, turn, connection, request_id,
  @logStream
| filter level in ["ERROR", "CRITICAL"]
  or @message like /^\\[ERROR\\]|Task timed out|Runtime exited|Runtime\\.\\w+|errorMessage/
| filter @message not like /^\\[ERROR\\] Exception: Unauthorized/
| sort @timestamp desc
| limit 200
""",
    ),
    Query(
        "one session",
        """\
fields @timestamp, @log, level, message, turn, connection, request_id, error, kind, status, exception
| filter session = "SESSION#alice#my_session"
| sort @timestamp
| limit 1000
""",
    ),
    Query(
        "one request",
        """\
fields @timestamp, @log, @message
| filter request_id = "REQUEST_ID" or @requestId = "REQUEST_ID"
| sort @timestamp
""",
    ),
    Query(
        "model errors",
        """\
fields @timestamp, kind, status, error, body, session, turn, request_id
| filter message in ["the model gave no answer", "no agent chosen", "compaction failed"]
| sort @timestamp desc
| limit 200
""",
        ("llm-request",),
    ),
    Query(
        "first token",
        """\
filter message = "model asked" and ispresent(FirstTokenMs.0)
| stats count(*), pct(FirstTokenMs.0, 50), pct(FirstTokenMs.0, 95), max(FirstTokenMs.0) by bin(5m)
""",
        ("llm-request",),
    ),
    Query(
        "tokens by user",
        """\
filter message = "model asked"
| parse session "SESSION#*#*" as owner, name
| fields coalesce(user, owner) as who
| stats sum(Tokens) as tokens, sum(ModelRequests) as requests, sum(CostUsd.0) as dollars by who
| sort tokens desc
| limit 50
""",
        ("llm-request",),
    ),
    Query(
        "tools",
        """\
filter message = "calls settled"
| stats count(*) as calls, pct(ToolWaitMs.0, 50), pct(ToolWaitMs.0, 95), pct(ApprovalWaitMs.0, 50) by tools.0, states.0
| sort calls desc
| limit 100
""",
    ),
    Query(
        "turns",
        """\
filter message = "turn ended"
| stats count(*) as turns, avg(TurnSteps), pct(TurnSteps, 95), max(TurnSteps) by reason
| sort turns desc
""",
    ),
    Query(
        "refused tokens",
        """\
filter message in ["connection refused", "request refused"]
| stats count(*) as refused, max(@timestamp) as last by reason
| sort refused desc
""",
        ("authorize", "rest-api"),
    ),
    Query(
        "sweep",
        """\
fields @timestamp, message, due, OldestDueMs, SweepLagMs, session, exception
| filter message in ["swept", "session repair failed", "step given up", "effect failed; left to the sweep"]
| sort @timestamp desc
| limit 200
""",
        ("sweep",),
    ),
    Query(
        "steps given up",
        """\
fields @timestamp, @log, session, turn, request_id
| filter message = "step given up"
| sort @timestamp desc
""",
    ),
    Query(
        "duration and memory",
        """\
filter @type = "REPORT"
| parse @message /Restore Duration: (?<restored>[0-9.]+) ms/
| stats count(*), pct(@duration, 95), max(@duration), max(@maxMemoryUsed / 1000000), max(@memorySize / 1000000),
  count(@initDuration), max(@initDuration), count(restored), max(restored) by @log
""",
    ),
)
