"""The AWS services of a deployment: ministack in a separate process, and Bedrock's answers about its models.

The emulator's Bedrock has other models than the real one, so this module answers the preflight.
"""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import boto3
from codelab_local.processes import free_port
from codelab_local.template import CODE_BUCKET, CODE_KEY, read_template

REGION = "us-east-1"
_START_TIMEOUT = 60.0

AVAILABLE = {
    "agreementAvailability": {"status": "AVAILABLE"},
    "authorizationStatus": "AUTHORIZED",
    "entitlementAvailability": "AVAILABLE",
    "regionAvailability": "AVAILABLE",
}


class EmulatedAws:
    """`environment` makes boto3 and the SAM CLI use it. `models` are Bedrock's answers by model id."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="codelab-deploy-test-")
        self.models: dict[str, dict[str, Any]] = {}
        self._bedrock = ThreadingHTTPServer(("127.0.0.1", 0), self._answers())
        threading.Thread(target=self._bedrock.serve_forever, daemon=True).start()
        self.port = free_port()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ministack"],
            env=self._emulator_environment(Path(self._folder.name)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bedrock.shutdown()
        self._bedrock.server_close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._folder.cleanup()

    @property
    def environment(self) -> dict[str, str]:
        bedrock = f"http://127.0.0.1:{self._bedrock.server_address[1]}"
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ENDPOINT_URL_BEDROCK": bedrock,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str) -> Any:
        make: Any = boto3.client
        return make(
            service,
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def function(self, name: str) -> dict[str, Any]:
        """A deployed function's configuration."""
        found: dict[str, Any] = self.client("lambda").get_function_configuration(FunctionName=name)
        return found

    def create(self, template: Path, name: str, **parameters: str) -> None:
        """Create a stack with empty functions, without SAM, which is slow."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as writer:
            writer.writestr("README", "nothing runs here")
        s3, cloudformation = self.client("s3"), self.client("cloudformation")
        s3.create_bucket(Bucket=CODE_BUCKET)
        s3.put_object(Bucket=CODE_BUCKET, Key=CODE_KEY, Body=archive.getvalue())
        cloudformation.create_stack(
            StackName=name,
            TemplateBody=read_template(template).body,
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        )
        cloudformation.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1})

    def _emulator_environment(self, folder: Path) -> dict[str, str]:
        (folder / "tmp").mkdir()
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "GATEWAY_PORT": str(self.port),
            "BIND_HOST": "127.0.0.1",
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "DOCKER_HOST": f"unix://{folder}/no-docker",
            "S3_DATA_DIR": str(folder / "s3"),
            "MINISTACK_REGION": REGION,
            "LOG_LEVEL": "CRITICAL",
        }

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/_ministack/health", timeout=5):
                    return
            except urllib.error.HTTPError:
                return
            except OSError:
                assert self._process.poll() is None, "the emulator has ended"
                assert time.monotonic() < deadline, "the emulator does not start"
                time.sleep(0.05)

    def _answers(self) -> type[BaseHTTPRequestHandler]:
        aws = self

        class Bedrock(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                model = unquote(self.path.rpartition("/")[2])
                answer = aws.models.get(model)
                self.send_response(200 if answer else 404)
                if not answer:
                    self.send_header("x-amzn-ErrorType", "ResourceNotFoundException")
                body = json.dumps(answer or {"message": f"no model {model}"}).encode()
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        return Bedrock
