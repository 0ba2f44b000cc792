"""The tables of docs/cost.md."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codelab.observability import MODEL_METRICS

from infra.cost import COUNTS, MAX_DELAYS_MS, PRICES, ROOT, TOOL_STEP, TURN
from infra.cost.estimate import COMPONENTS, Bill, Estimate, together, total
from infra.docs.markdown import table
from infra.observability.alarms import OURS, alarms
from infra.observability.template import functions, graphs
from infra.translate import translate_file

PAGE = ROOT / "docs/cost.md"
#: Megabytes of `llm_request` that are compared. 1769 MB is one processor.
MEMORIES = (512, 1024, 1769)
#: The files of the web page that the first visit loads, with the editor, and their bytes as they are sent.
VISIT_FILES, VISIT_BYTES = 6, 320_000
#: A component below this share of a bill is not drawn.
_DRAWN = 0.01
_MINUTES_MONTH = 60


class Costs:
    """The figures, from the counts, the prices and the template."""

    def __init__(
        self,
        counts: Mapping[str, Any],
        prices: Mapping[str, Any],
        memory: Mapping[str, int],
        from_snapshots: Sequence[str] = (),
    ) -> None:
        self.counts, self.prices, self.memory, self.from_snapshots = counts, prices, memory, from_snapshots
        self.estimate = Estimate(prices, memory)

    def turn(self, delay: int = MAX_DELAYS_MS[0], memory: int | None = None) -> Bill:
        """A plain turn: a message and its answer."""
        sizes = self.memory if memory is None else {**self.memory, "llm_request": memory}
        estimate = Estimate(self.prices, sizes)
        message = estimate.scenario(self.counts["turn"], frames=1)
        return together(
            message, estimate.scenario(self.counts[f"answer, batches of at most {delay} ms"], model_s=TURN.seconds)
        )

    def scenario(self, name: str, **more: Any) -> Bill:
        return self.estimate.scenario(self.counts[name], **more)

    def visit(self) -> Bill:
        """Opening the web page with empty caches."""
        nothing = dict.fromkeys(
            ("reads", "writes", "messages", "kept", "passing", "logged", "objects_read", "objects_written"), 0
        )
        file = {**nothing, "sent": VISIT_BYTES / VISIT_FILES}
        return together(*[self.estimate.scenario({"page": file}, requests=1)] * VISIT_FILES)

    def alarms(self) -> dict[str, float]:
        """What `AlarmEmail` adds in a month, by what, if all metrics have values all the time."""
        prices = self.prices["cloudwatch"]
        always = {name: condition for name, condition in functions(ROOT / "template.yaml").items() if not condition}
        watched = [
            metric
            for alarm in alarms(always)
            for metric in (alarm.metric, *alarm.operands.values())
            if metric is not None
        ]
        own = {metric.name for graph in graphs(always) for metric in graph.metrics if metric.namespace == OURS}
        return {
            f"alarms on {len(watched)} metrics": len(watched) * prices["alarm_month"],
            f"{len(own)} metrics of our own": len(own) * prices["metric_month"],
            f"{len(MODEL_METRICS)} of them for a model": len(MODEL_METRICS) * prices["metric_month"],
            "the dashboard": prices["dashboard_month"],
        }

    def snapshots(self) -> dict[str, float]:
        """What `SnapStart` adds: in a month, and when all of its functions start once."""
        prices, assumed = self.prices["lambda"], self.prices["assumed"]
        memory = sum(self.memory[folder] for folder in self.from_snapshots) / 1024
        return {
            f"{len(self.from_snapshots)} snapshots of {memory:g} GB together, a month": (
                memory * prices["snapshot_gb_second"] * assumed["hours_month"] * 3600
            ),
            "1,000 first conversations that start all of them": 1000 * memory * prices["restored_gb"],
        }

    def traces(self) -> dict[str, float]:
        """What `Tracing` adds, if X-Ray takes every invocation into its sample."""
        price = self.prices["xray"]["traces_million"] / 1e6
        return {
            "the sweep, a month": self.prices["assumed"]["hours_month"] * _MINUTES_MONTH * price,
            "1,000 plain turns, if all of them are in the sample": 1000 * price,
        }

    def edge(self) -> dict[str, float]:
        """What `Edge` adds, in a month and by use. Data to viewers is paid instead of data that leaves the region."""
        prices = self.prices["cloudfront"]
        request = prices["https_requests_million"] / 1e6
        function = prices["function_runs_million"] / 1e6
        return {
            "its secret, a month": self.prices["secrets"]["secret_month"],
            "1,000 connections, each with a run of its function": 1000 * (request + function),
            "1,000 requests over HTTP": 1000 * request,
            "a GB that clients send": prices["origin_gb"],
            f"a GB that clients get, instead of ${self.prices['transfer']['out_gb']:.2f}": prices["viewer_gb"],
        }

    def access_logs(self) -> dict[str, float]:
        """What `AccessLogs` adds. Each frame of a client, each connection, its end and each request is a line."""
        line = self.prices["assumed"]["access_log_bytes"] / 1e9 * self.prices["cloudwatch"]["logs_gb"]
        return {
            "1,000 lines: frames of clients, connections, their ends, requests": 1000 * line,
            "1,000 days of a user: each 100 messages, 300 results of tools, 56 `ping`, 5 connections": 466_000 * line,
        }

    def month(self) -> dict[str, float]:
        """What an idle stack costs in a month, by what."""
        prices, sweeps = self.prices, self.prices["assumed"]["hours_month"] * _MINUTES_MONTH
        sweep = self.scenario("idle sweep")
        return {
            "the secret that signs authentication tokens": prices["secrets"]["secret_month"],
            f"the sweep: {sweeps:,} invocations, {sweeps * 8:,} empty queries": total(sweep) * sweeps,
        }


def read() -> Costs:
    """The costs of the counts, the prices and the template of this checkout."""
    functions = translate_file(ROOT / "template.yaml")["Resources"].values()
    properties = [one["Properties"] for one in functions if one["Type"] == "AWS::Lambda::Function"]
    memory = {Path(one["Code"]["S3Key"]).name: one["MemorySize"] for one in properties}
    from_snapshots = [Path(one["Code"]["S3Key"]).name for one in properties if "SnapStart" in one]
    prices = tomllib.loads(PRICES.read_text(encoding="utf-8"))
    architectures = {name for one in properties for name in one["Architectures"]}
    if architectures != {prices["architecture"]}:
        raise ValueError(f"template.yaml has {architectures}, {PRICES.name} {prices['architecture']}")
    return Costs(json.loads(COUNTS.read_text(encoding="utf-8")), prices, memory, from_snapshots)


def page(text: str, costs: Costs) -> str:
    """The page `text` with its tables made anew. Raises ValueError if it has no place for one."""
    for name, lines in _tables(costs).items():
        place = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.S)
        if place is None:
            raise ValueError(f"{PAGE.name} has no place for {name}")
        text = text[: place.start(1)] + "\n".join(lines) + "\n" + text[place.end(1) :]
    return text


def _tables(costs: Costs) -> dict[str, Sequence[str]]:
    turn = costs.turn()
    return {
        "turn": _components(turn),
        "pie": _pie(turn),
        "events": _events(costs),
        "month": table(("an idle stack", "a month"), _sums(costs.month())),
        "alarms": table(("with `AlarmEmail`, in addition", "a month"), _sums(costs.alarms())),
        "snapshots": _snapshots(costs),
        "traces": _traces(costs),
        "edge": table(
            ("with `Edge`, in addition", "price"), [(name, _dollars(price)) for name, price in costs.edge().items()]
        ),
        "access-logs": table(
            ("with `AccessLogs`, in addition", "price"),
            [(name, _dollars(price)) for name, price in costs.access_logs().items()],
        ),
        "memory": _memory(costs),
        "delay": _delay(costs),
        "counts": _counts(costs),
        "prices": _prices(costs.prices),
    }


def _components(bill: Bill) -> list[str]:
    rows = [
        (name, _dollars(1000 * bill[name]), f"{bill[name] / total(bill):.0%}")
        for name in COMPONENTS
        if 1000 * bill[name] >= 0.00005
    ]
    return table(("", "1,000 turns", "share"), [*rows, ("**together**", f"**{_dollars(1000 * total(bill))}**", "100%")])


def _pie(bill: Bill) -> list[str]:
    drawn = {name: share for name in COMPONENTS if (share := bill[name] / total(bill)) >= _DRAWN}
    slices = [f'  "{name}" : {100 * share:.0f}' for name, share in drawn.items()]
    return ["```mermaid", "pie showData", "  title A plain turn, in %", *slices, "```"]


def _events(costs: Costs) -> list[str]:
    call = costs.counts["tool call"]
    bills = {
        "a plain turn": costs.turn(),
        f"a tool call: a step of {TOOL_STEP.seconds:g} s, and its result of 4 KB": costs.estimate.scenario(
            call, model_s=TOOL_STEP.seconds, frames=1
        ),
        "its approval by a human, in addition": costs.scenario("approval", frames=1),
        "a result of 500 KB instead of 4 KB, in addition": _more(
            costs.scenario("large result"), costs.estimate.scenario({"tool_result": call["tool_result"]})
        ),
        "a connection: `$connect` with its authorizer, and `$disconnect`": together(
            costs.scenario("connect"), costs.scenario("disconnect")
        ),
        "an idle connection, an hour, with the seven `ping` of our clients": together(
            costs.estimate.minutes(60), *[costs.scenario("ping", frames=1)] * 7
        ),
        f"a first visit of the page: {VISIT_FILES} files, {VISIT_BYTES // 1000} KB": costs.visit(),
        "reading that session's history over HTTP": costs.scenario("history over HTTP", requests=1),
    }
    rows = [(name, _dollars(1000 * total(bill))) for name, bill in bills.items()]
    return table(("", "1,000 of them"), rows)


def _more(large: Bill, small: Bill) -> Bill:
    return {name: large[name] - small[name] for name in large}


def _memory(costs: Costs) -> list[str]:
    now = costs.memory["llm_request"]
    rows = [
        (f"{size:,} MB{', as deployed' if size == now else ''}", _dollars(1000 * total(costs.turn(memory=size))))
        for size in MEMORIES
    ]
    return table(("memory of `llm_request`", "1,000 plain turns"), rows)


def _snapshots(costs: Costs) -> list[str]:
    rows = [(name, _dollars(value)) for name, value in costs.snapshots().items()]
    return table(("with `SnapStart`, in addition", "price"), rows)


def _traces(costs: Costs) -> list[str]:
    rows = [(name, _dollars(value)) for name, value in costs.traces().items()]
    return table(("with `Tracing=Active`, in addition", "price"), rows)


def _delay(costs: Costs) -> list[str]:
    rows = [
        (
            f"{delay} ms{', the default' if delay == MAX_DELAYS_MS[0] else ''}",
            str(TURN.batches(delay)),
            _dollars(1000 * total(costs.turn(delay))),
        )
        for delay in sorted(MAX_DELAYS_MS)
    ]
    return table(("`StreamMaxDelayMs`", "batches of an answer, at most", "1,000 plain turns"), rows)


def _counts(costs: Costs) -> list[str]:
    rows = [
        (
            scenario,
            f"`{folder}`",
            f"{usage['reads']:g}",
            str(usage["writes"]),
            str(usage["messages"]),
            f"{usage['objects_read']} / {usage['objects_written']}",
        )
        for scenario, functions in costs.counts.items()
        for folder, usage in functions.items()
    ]
    head = ("scenario", "function", "read units", "write units", "messages", "S3 reads / writes")
    return table(head, rows)


def _prices(prices: Mapping[str, Any]) -> list[str]:
    rows = [
        (f"[{name}]({source})", "; ".join(_named(prices[section]) for section in _SECTIONS[name]))
        for name, source in prices["sources"].items()
    ]
    return table((f"{prices['region']}, {prices['date']}", "list price in US dollars"), rows)


_SECTIONS = {
    "Lambda": ["lambda"],
    "API Gateway": ["api_gateway"],
    "DynamoDB": ["dynamodb"],
    "S3": ["s3"],
    "CloudWatch": ["cloudwatch"],
    "X-Ray": ["xray"],
    "Secrets Manager": ["secrets"],
    "CloudFront": ["cloudfront"],
    "Data transfer": ["transfer"],
}
_UNITS = {
    "requests_million": "a million requests",
    "gb_second": "a GB-second",
    "snapshot_gb_second": "a GB-second of a snapshot",
    "restored_gb": "a GB restored",
    "websocket_messages_million": "a million messages of 32 KB",
    "connection_minutes_million": "a million connection minutes",
    "http_requests_million": "a million HTTP requests",
    "write_units_million": "a million write units",
    "read_units_million": "a million read units",
    "storage_gb_month": "a GB and month",
    "recovery_gb_month": "a GB and month for point-in-time recovery",
    "writes_thousand": "a thousand writes",
    "reads_thousand": "a thousand reads",
    "logs_gb": "a GB of logs",
    "metric_month": "a metric and month",
    "alarm_month": "an alarm's metric and month",
    "dashboard_month": "a dashboard and month",
    "traces_million": "a million traces",
    "secret_month": "a secret and month",
    "out_gb": "a GB to the internet",
    "https_requests_million": "a million HTTPS requests",
    "function_runs_million": "a million runs of a function",
    "viewer_gb": "a GB to viewers",
    "origin_gb": "a GB to an origin",
}


def _named(prices: Mapping[str, Any]) -> str:
    found = []
    for name, price in prices.items():
        by_kind = price if isinstance(price, dict) else {"": price}
        found += [f"{_plain(value)} {_UNITS[name]}{f' ({kind})' if kind else ''}" for kind, value in by_kind.items()]
    return ", ".join(found)


def _plain(value: float) -> str:
    return f"{value:.10f}".rstrip("0").rstrip(".")


def _sums(parts: Mapping[str, float]) -> list[tuple[str, str]]:
    together = sum(parts.values())
    return [*((name, _dollars(value)) for name, value in parts.items()), ("**together**", f"**{_dollars(together)}**")]


def _dollars(value: float) -> str:
    """Two significant digits, and no less than cents."""
    if value >= 0.1:
        return f"${value:,.2f}"
    return f"${value:.3f}" if value >= 0.01 else f"${value:.4f}"
