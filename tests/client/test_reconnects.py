"""Broken connections cost nothing that is shown, and a token is refreshed before it expires."""

import hashlib
from dataclasses import replace

import pytest
from codelab_client.session import events as on
from codelab_local import LocalCloud

from tests.client.breakable_proxy import BreakableProxy
from tests.client.conftest import FAST, Open
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.waiting import run

TEXT = "".join(f"w{n} " for n in range(400))


@pytest.mark.parametrize("breaks", [1, 5])
def test_the_text_is_whole_however_often_the_connection_breaks(
    new_session: Open, cloud: LocalCloud, model: ScriptedModel, breaks: int
) -> None:
    script = model.script(f"client-break-{breaks}", Says(TEXT, piece=8, delay=0.01))

    async def talk(port: int, proxy: BreakableProxy) -> None:
        left = breaks
        text, seqs = "", []
        async with new_session(url=f"ws://127.0.0.1:{port}") as session:
            async for event in session.prompt(script):
                if event.seq:
                    seqs.append(event.seq)
                if isinstance(event, on.AssistantMessage):
                    text += event.token
                    if left and not len(seqs) % 3:
                        left -= 1
                        proxy.break_all()
                if isinstance(event, on.TurnEnd):
                    digest = event.final_text_sha256
        assert text == TEXT
        assert hashlib.sha256(text.encode()).hexdigest() == digest
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))

    with BreakableProxy(cloud.info["port"]) as proxy:
        run(talk(proxy.port, proxy))


async def test_an_old_connection_is_replaced_without_a_word(
    new_session: Open, cloud: LocalCloud, model: ScriptedModel
) -> None:
    one, two = model.script("client-old", Says("one")), model.script("client-old-2", Says("two"))
    async with new_session(timing=replace(FAST, lifetime_s=0.5)) as session:
        async for _ in session.prompt(one):
            pass
        seen: list[on.Event] = []
        async for event in session.events():
            seen.append(event)
            if sum(isinstance(one, on.Connected) for one in seen) == 2:
                break
        said = "".join([e.token async for e in session.prompt(two) if isinstance(e, on.AssistantMessage)])
        assert said == "two"
        async for event in session.events():
            seen.append(event)
            if sum(isinstance(one, on.TurnEnd) for one in seen) == 2:
                break
        assert not [event for event in seen if isinstance(event, on.Disconnected)]
