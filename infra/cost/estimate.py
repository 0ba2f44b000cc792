"""From counts and list prices to dollars. Pure: everything is a parameter."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GB = 1024**3
#: What a bill is made of, in the order in which it is printed.
LAMBDA_MODEL = "Lambda, waiting for the model"
LAMBDA = "Lambda, the rest"
MESSAGES, MINUTES, HTTP = "API Gateway, messages", "API Gateway, connection minutes", "API Gateway, HTTP requests"
WRITES, READS, STORAGE = "DynamoDB, writes", "DynamoDB, reads", "DynamoDB, one month of storage"
OBJECTS, LOGS, TRANSFER = "S3", "CloudWatch logs", "data transfer"
COMPONENTS = (LAMBDA_MODEL, MESSAGES, WRITES, LAMBDA, READS, STORAGE, HTTP, MINUTES, OBJECTS, LOGS, TRANSFER)

#: Per component, dollars.
Bill = dict[str, float]
#: Per function of a scenario, what it uses: the fields of `tests.fakes.aws.capacity.Usage`.
Used = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """`prices` is prices.toml, `memory` the megabytes of each function, by its folder."""

    prices: Mapping[str, Any]
    memory: Mapping[str, int]

    def scenario(self, used: Used, *, model_s: float = 0, frames: int = 0, requests: int = 0) -> Bill:
        """What one run of a scenario costs, with `frames` of the client or its `requests` over HTTP.

        `model_s`: for how many seconds `llm_request` waits for the model.
        """
        prices, assumed = self.prices, self.prices["assumed"]
        bill = dict.fromkeys(COMPONENTS, 0.0)
        for folder, usage in used.items():
            own_ms = {"llm_request": assumed["step_ms"], "sweep": assumed["sweep_ms"]}.get(folder, assumed["event_ms"])
            bill[LAMBDA] += self._seconds(folder, own_ms / 1000) + prices["lambda"]["requests_million"] / 1e6
            if folder == "llm_request":
                bill[LAMBDA_MODEL] += self._seconds(folder, model_s)
            bill[MESSAGES] += usage["messages"] * prices["api_gateway"]["websocket_messages_million"] / 1e6
            bill[WRITES] += usage["writes"] * prices["dynamodb"]["write_units_million"] / 1e6
            bill[READS] += usage["reads"] * prices["dynamodb"]["read_units_million"] / 1e6
            bill[STORAGE] += self._stored(usage["kept"] + usage["passing"] / 30)
            bill[OBJECTS] += usage["objects_written"] * prices["s3"]["writes_thousand"] / 1000
            bill[OBJECTS] += usage["objects_read"] * prices["s3"]["reads_thousand"] / 1000
            bill[LOGS] += (usage["logged"] + assumed["platform_log_bytes"]) / GB * prices["cloudwatch"]["logs_gb"]
            bill[TRANSFER] += usage["sent"] / GB * prices["transfer"]["out_gb"]
        bill[MESSAGES] += frames * prices["api_gateway"]["websocket_messages_million"] / 1e6
        bill[HTTP] += requests * prices["api_gateway"]["http_requests_million"] / 1e6
        return bill

    def minutes(self, count: float) -> Bill:
        """What an open connection costs for so many minutes."""
        return {MINUTES: count * self.prices["api_gateway"]["connection_minutes_million"] / 1e6}

    def _seconds(self, folder: str, seconds: float) -> float:
        price = self.prices["lambda"]["gb_second"][self.prices["architecture"]]
        return float(self.memory[folder] / 1024 * seconds * price)

    def _stored(self, size: float) -> float:
        prices = self.prices["dynamodb"]
        return float(size / GB * (prices["storage_gb_month"] + prices["recovery_gb_month"]))


def total(bill: Mapping[str, float]) -> float:
    """All components together."""
    return sum(bill.values())


def together(*bills: Mapping[str, float]) -> Bill:
    """The sum of several bills."""
    return {name: sum(bill.get(name, 0) for bill in bills) for name in COMPONENTS}
