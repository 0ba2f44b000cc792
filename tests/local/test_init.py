"""Handlers whose init conflicts with forking, and handlers that take the callback address from the event."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from codelab_local import LocalCloud
from websockets.sync.client import connect

from tests.processes import command_lines

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Globals: {Function: {Runtime: python3.13, Handler: handler.handler}}
Resources:
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
  Threaded: {Type: AWS::Serverless::Function, Properties: {CodeUri: threaded}}
  Connected:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: connected, Timeout: 10}
  Described:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: described, Environment: {Variables: {AWS_DATA_PATH: models}}}
  Simple: {Type: AWS::Serverless::Function, Properties: {CodeUri: simple}}
  Api: {Type: AWS::ApiGatewayV2::Api, Properties: {Name: init, ProtocolType: WEBSOCKET}}
  Stage: {Type: AWS::ApiGatewayV2::Stage, Properties: {ApiId: !Ref Api, StageName: prod, AutoDeploy: true}}
  Route:
    Type: AWS::ApiGatewayV2::Route
    Properties: {ApiId: !Ref Api, RouteKey: $default, Target: !Sub "integrations/${Integration}"}
  Integration:
    Type: AWS::ApiGatewayV2::Integration
    Properties:
      ApiId: !Ref Api
      IntegrationType: AWS_PROXY
      IntegrationUri: !Sub arn:aws:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/${Simple.Arn}/invocations
"""
SOURCES = {
    "threaded": """
import queue, threading
import starts_a_thread  # as some packages do when they are imported

questions, answers = queue.Queue(), queue.Queue()
threading.Thread(target=lambda: [answers.put(question) for question in iter(questions.get, None)], daemon=True).start()

def handler(event, context):
    questions.put(event)
    return answers.get(timeout=2)
""",
    "connected": """
import os, boto3
tables = boto3.client("dynamodb")
tables.list_tables()  # leaves a connection open

def handler(event, context):
    return [len(tables.list_tables()["TableNames"]) for _ in range(event["times"])]
""",
    "described": """
import boto3
services = boto3.Session().get_available_services()

def handler(event, context):
    return [name in services for name in ("greeter", "dynamodb")]
""",
    "simple": """
import boto3

def handler(event, context):
    where = event["requestContext"]
    client = boto3.client("apigatewaymanagementapi", endpoint_url=f"https://{where['domainName']}/{where['stage']}")
    client.post_to_connection(ConnectionId=where["connectionId"], Data=event["body"].encode())
    return {"statusCode": 200}
""",
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    folder = tmp_path_factory.mktemp("init")
    (folder / "template.yaml").write_text(TEMPLATE)
    for name, text in SOURCES.items():
        (folder / name).mkdir()
        (folder / name / "handler.py").write_text(text)
    model = folder / "described" / "models" / "greeter" / "2020-01-01" / "service-2.json"
    model.parent.mkdir(parents=True)
    model.write_text("{}")
    packages = tmp_path_factory.mktemp("packages")
    (packages / "starts_a_thread.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    with LocalCloud(folder / "template.yaml", environment={**os.environ, "PYTHONPATH": str(packages)}) as running:
        yield running


@pytest.mark.deep
def test_an_init_that_starts_a_thread_is_not_forked(cloud: LocalCloud) -> None:
    assert cloud.invoke("threaded", {"a": 1}) == {"a": 1}
    assert psutil.Process(cloud.workers("threaded")[0]).ppid() == cloud.process.pid
    assert "[threaded] its init starts a thread" in cloud.logs()
    assert psutil.Process(cloud.workers("simple")[0]).ppid() != cloud.process.pid


def test_a_function_may_describe_services_of_its_own_to_the_sdk(cloud: LocalCloud) -> None:
    assert cloud.invoke("described") == [True, True]


def test_connections_opened_during_init_are_not_shared(cloud: LocalCloud) -> None:
    with ThreadPoolExecutor() as pool:
        answers = pool.map(lambda _: cloud.invoke("connected", {"times": 50}), range(6))
        assert all(answer == [1] * 50 for answer in answers)


def test_posts_to_the_events_domain_name_work(cloud: LocalCloud) -> None:
    with connect(cloud.url()) as client:
        client.send("to myself")
        assert client.recv(15) == "to myself"


def test_it_ends_with_a_message_if_the_emulator_dies(cloud: LocalCloud) -> None:
    for process, line in command_lines(cloud).items():
        if "codelab_local.emulator.process" in line:
            process.kill()
    assert cloud.process.wait(20) == 1
    assert "the AWS emulator ended" in cloud.logs()
