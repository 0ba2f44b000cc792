"""webhook: tells the operator's webhook, and users' browsers, what subscription filters find in the functions' logs."""

import base64
import gzip
import json
import time
from typing import Any

from codelab.process_start import begin_init

begin_init()

from codelab import aws, push, webhook
from codelab.config import settings
from codelab.observability import begin, logger


def handler(event: dict[str, Any], context: Any) -> None:
    """Tell what is in a batch of lines ("Using CloudWatch Logs subscription filters", AWS Lambda).

    Lambda calls it again, with the same notices, if the webhook was not told. Then browsers may be told again too: that
    replaces what they show.
    """
    begin(request_id=context.aws_request_id)
    batch = json.loads(gzip.decompress(base64.b64decode(event["awslogs"]["data"])))
    if batch["messageType"] != "DATA_MESSAGE":  # CloudWatch checks that it may call
        return
    lines, page_url = batch["logEvents"], settings().page_url
    notices = [webhook.notice_of(line["message"], line["id"], line["timestamp"], page_url) for line in lines]
    known_notices = [notice for notice in notices if notice is not None]
    if len(known_notices) < len(lines):
        logger().error("lines without a notice", extra={"count": len(lines) - len(known_notices)})
    if settings().web_push_key:
        waiting = [notice for notice in known_notices if notice.kind == "approval_requested"]
        push.tell([notice.user for notice in waiting], int(1000 * time.time()))
    if settings().webhook_secret_arn:
        _tell_webhook([notice for notice in known_notices if notice.kind in settings().webhook_events])


def _tell_webhook(notices: list[webhook.Notice]) -> None:
    if notices:
        secret = json.loads(aws.secrets_client().get(settings().webhook_secret_arn))
        webhook.post(secret["url"], secret["key"], webhook.body_of(notices, settings().webhook_format))
