"""Runs the deployed schedules, with shorter minutes.

Unlike in the cloud, a run that takes longer than its interval delays the next one: the intervals are so short here that
runs would pile up.
"""

import asyncio
import json
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from codelab_local.functions.lambda_service import LambdaService
from codelab_local.host.notices import notice
from codelab_local.template.deployment import Deployment, Schedule

_RATE = re.compile(r"rate\((\d+)\s+(minute|hour|day)s?\)")
_MINUTES = {"minute": 1, "hour": 60, "day": 1440}


class Schedules:
    """`minute` is the number of seconds that stand for a minute."""

    def __init__(self, deployment: Deployment, lambdas: LambdaService, minute: float) -> None:
        self._deployment = deployment
        self._lambdas = lambdas
        self._minute = minute
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for schedule, minutes in _readable(self._deployment.schedules):
            self._tasks.append(asyncio.get_running_loop().create_task(self._run(schedule, minutes * self._minute)))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _run(self, schedule: Schedule, seconds: float) -> None:
        pool = self._lambdas.find(schedule.function)
        while pool is not None:
            await asyncio.sleep(seconds)
            event = schedule.input
            if event is None:
                account, region = self._deployment.account, self._deployment.region
                event = json.dumps(scheduled(schedule.arn, account, region, schedule.source))
            await pool.invoke(event.encode())


def scheduled(arn: str, account: str, region: str, source: str) -> dict[str, Any]:
    """The event of a schedule for a target without an input."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": source,
        "account": account,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "resources": [arn],
        "detail": {} if source == "aws.events" else "{}",
    }


def _readable(schedules: Sequence[Schedule]) -> list[tuple[Schedule, int]]:
    """The supported schedules with their intervals in minutes."""
    supported = []
    for schedule in schedules:
        rate = _RATE.fullmatch(schedule.expression.strip())
        if rate is not None:
            supported.append((schedule, int(rate.group(1)) * _MINUTES[rate.group(2)]))
        elif schedule.expression.startswith(("cron(* ", "cron(*/1 ")):
            supported.append((schedule, 1))
        else:
            notice(
                f"the schedule {schedule.expression} is ignored: only rate(…) and a cron of every minute are supported"
            )
    return supported
