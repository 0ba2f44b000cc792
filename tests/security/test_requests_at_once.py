"""Many Requests over HTTP at once: each is counted before it runs, so that they do not all find room."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
from codelab_local import LocalCloud

from tests.conversations.test_quotas import all_in_one_minute
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.rest.test_identity import authorization

AT_ONCE = 40


def test_requests_at_once_do_not_all_find_room(limited_cloud: LocalCloud, model: ScriptedModel) -> None:
    """The plan allows one a minute."""
    headers = authorization("thief", codelab_plan="small")
    marker = model.script("at once", Says(raw="{}"))
    request = {"context": [{"role": "user", "content": f"Name a fruit {marker}"}], "schema": {"type": "object"}}
    all_in_one_minute()
    with httpx.Client(base_url=f"{limited_cloud.http}/api/v1", headers=headers, timeout=60) as api:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda _: api.post("/requests", json=request).status_code, range(AT_ONCE)))
        used = api.get("/usage").json()["quotas"]
    print(f"{AT_ONCE} Requests at once: {dict(Counter(answers))}")  # noqa: T201 - the figures
    assert Counter(answers) == {200: 1, 429: AT_ONCE - 1}
    assert len(model.requests["at once"]) == 1, "the others asked nobody"
    assert used["requests_per_minute"]["used"] == 1
    assert used["open_turns"]["used"] == 0, "the second update, before the answer: it has ended"
