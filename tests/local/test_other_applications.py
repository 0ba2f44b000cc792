"""Applications that others would write: the samples in `examples`, and templates with what we do not use ourselves."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud
from codelab_local.functions.environment import aws_clients, shared_imports
from codelab_local.host.errors import StartError
from codelab_local.template.open_api import OpenApi
from codelab_local.template.sam_template import read_template, without
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.waiting import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"
ODD = Path(__file__).parent / "odd" / "template.yaml"


@pytest.fixture(scope="module")
def orders() -> Iterator[LocalCloud]:
    with LocalCloud(EXAMPLES / "orders" / "template.yaml") as cloud:
        yield cloud


def call(cloud: LocalCloud, method: str, path: str, body: Any = None, token: str = "of-alice") -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", **({"Authorization": token} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(cloud.http + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_who_watches_sees_what_becomes_of_orders(orders: LocalCloud) -> None:
    with connect(orders.url(token="of-alice")) as alice, connect(orders.url(token="of-bob")) as bob:
        status, order = call(orders, "POST", "/orders", {"item": "tea"})
        assert (status, order["state"]) == (201, "placed")
        assert json.loads(alice.recv(PATIENCE)) == {"type": "order", **order}
        assert call(orders, "PUT", f"/orders/{order['id']}/shipped") == (200, {**order, "state": "shipped"})
        assert json.loads(alice.recv(PATIENCE))["state"] == "shipped"
        for socket, items in ((alice, ["tea"]), (bob, [])):
            socket.send('{"type": "list"}')
            answer = json.loads(socket.recv(PATIENCE))
            assert [one["item"] for one in answer["orders"]] == items


@pytest.mark.parametrize(("token", "status"), [("", 401), ("nobody", 403)])
def test_both_authorizers_refuse(orders: LocalCloud, token: str, status: int) -> None:
    assert call(orders, "POST", "/orders", {"item": "tea"}, token)[0] == status
    with pytest.raises(InvalidStatus, match=str(status)):
        connect(orders.url(token=token))


def test_an_authorizer_is_asked_once_for_each_identity_in_its_time(orders: LocalCloud) -> None:
    def times_asked() -> int:
        served: list[int] = orders.functions()["AuthorizeRequestFunction"]["served"]
        return sum(served)

    before = times_asked()
    for token in ("of-carol", "of-carol", "of-dave", "nobody else", "nobody else"):
        call(orders, "PUT", "/orders/none/shipped", token=token)
    assert times_asked() == before + 3


def test_functions_that_share_a_folder_are_told_apart(orders: LocalCloud) -> None:
    assert {"ConnectFunction", "PlaceFunction"} < orders.functions().keys()
    assert orders.invoke("AuthorizeRequestFunction", {"headers": {"authorization": "of-eve"}})["isAuthorized"]


@pytest.mark.deep
def test_everybody_in_the_chat_room_gets_each_message() -> None:
    with (
        LocalCloud(EXAMPLES / "chat" / "template.yaml") as cloud,
        connect(cloud.url()) as one,
        connect(cloud.url()) as other,
    ):
        one.send(json.dumps({"action": "sendmessage", "data": "hello"}))
        assert [one.recv(PATIENCE), other.recv(PATIENCE)] == ["hello", "hello"]
        other.close()
        one.send(json.dumps({"action": "sendmessage", "data": "anybody?"}))
        assert one.recv(PATIENCE) == "anybody?"
        one.send("no route, and no $default")
        assert json.loads(one.recv(PATIENCE))["message"] == "Forbidden"


@pytest.mark.deep
def test_a_template_with_what_the_local_cloud_has_not_runs_without_it() -> None:
    with LocalCloud(ODD) as cloud, connect(cloud.url()) as client:
        for route, answer in (("inline", "blue"), ("sam", "of SAM"), ("folder", "of a layer")):
            client.send(json.dumps({"version": "v1", "action": route}))
            assert client.recv(PATIENCE) == answer
        client.send('{"version": "v1", "action": "node"}')
        assert json.loads(client.recv(PATIENCE))["message"] == "Internal server error"
        log = cloud.logs()
    assert "the function Node is left out: its runtime is nodejs22.x, and only Python runs here" in log
    assert "Campaign is left out: the emulator has no AWS::Pinpoint::App" in log


def test_functions_with_code_in_the_template_get_a_folder(tmp_path: Path) -> None:
    sources = read_template(ODD, tmp_path / "inline").sources
    assert {name: source.name for name, source in sources.items()} == {
        "Inline": "Inline",
        "OfSam": "OfSam",
        "Folder": "function",
    }
    assert "['colour']" in (sources["Inline"].folder / "index.py").read_text()
    assert [path.name for path in sources["Folder"].layers] == ["python", "layer"]


def test_resources_that_the_emulator_has_not_become_placeholders(tmp_path: Path) -> None:
    chat = json.loads(read_template(EXAMPLES / "chat" / "template.yaml").body)["Resources"]
    assert chat["Deployment"]["Type"] == "AWS::CloudFormation::WaitConditionHandle"
    template = read_template(ODD, tmp_path)
    resources = json.loads(template.body)["Resources"]
    reduced = json.loads(without(template, frozenset({"AWS::Pinpoint::App"})).body)["Resources"]
    assert [name for name in resources if resources[name]["Type"] != reduced[name]["Type"]] == ["Campaign"]
    with pytest.raises(StartError, match="others of the template refer to Role"):
        without(template, frozenset({"AWS::IAM::Role"}))
    with pytest.raises(StartError, match="refer to Live"):
        without(read_template(EXAMPLES / "orders" / "template.yaml"), frozenset({"AWS::Serverless::WebSocketApi"}))


def test_an_api_in_openapi_has_the_same_parts_as_one_of_resources() -> None:
    function = {"Fn::GetAtt": ["Run", "Arn"]}
    integration = {
        "type": "aws_proxy",
        "uri": {"Fn::Sub": "arn:aws:apigateway:x:lambda:path/functions/${Run.Arn}/invocations"},
        "timeoutInMillis": 5000,
    }
    authorizer = {"type": "request", "authorizerUri": {"Fn::Sub": ["${F}/invocations", {"F": function}]}}
    body = {
        "paths": {
            "/x/{id}": {"get": {"x-amazon-apigateway-integration": integration, "security": [{"Own": []}]}},
            "/y": {"x-amazon-apigateway-any-method": {"x-amazon-apigateway-integration": {"uri": function}}},
            "$default": {
                "Fn::If": ["C", {"x-amazon-apigateway-any-method": {"security": []}}, {"Ref": "AWS::NoValue"}]
            },
        },
        "security": [{"Jwt": []}],
        "components": {
            "securitySchemes": {
                "Own": {"x-amazon-apigateway-authorizer": {**authorizer, "identitySource": "$request.header.A, $b"}},
                "Jwt": {"x-amazon-apigateway-authorizer": {"type": "jwt"}},
            }
        },
    }
    api = OpenApi(body, {"Run": "arn:run"})
    assert api.routes == [
        {"routeKey": "GET /x/{id}", "target": "integrations/GET /x/{id}"}
        | {"authorizerId": "Own", "authorizationType": "CUSTOM"},
        {"routeKey": "ANY /y", "target": "integrations/ANY /y", "authorizerId": "Jwt", "authorizationType": "JWT"},
        {"routeKey": "$default", "target": "integrations/$default"},
    ]
    assert api.integrations["GET /x/{id}"]["integrationUri"] == (
        "arn:aws:apigateway:x:lambda:path/functions/arn:run/invocations"
    )
    assert api.integrations["ANY /y"]["integrationUri"] == "arn:run"
    assert api.authorizers["Own"]["authorizerUri"] == "arn:run/invocations"
    assert api.authorizers["Own"]["identitySource"] == ["$request.header.A", "$b"]


def test_an_environment_in_a_functions_folder_is_not_its_source(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text("import unheard_of\nboto3.client('sqs')\n")
    (tmp_path / "app.py").write_text("import boto3\nboto3.client('dynamodb')\n")
    assert shared_imports([tmp_path]) == ["boto3"]
    assert aws_clients([tmp_path]) == ["dynamodb"]
