"""The TypeScript declarations, checked with the TypeScript compiler."""

import json
from pathlib import Path

from infra.docs.schemas import frames_of
from infra.docs.typescript import type_of
from tests.frames import DOCUMENT
from tests.node import node_with
from tests.processes import run

NODE_PROJECT = Path(__file__).with_name("node")
DECLARATIONS = Path(__file__).parents[2] / "clients/typescript/src/protocol.ts"

CLIENT = """
import type { ClientFrame, KnownCallFrame, ServerFrame, ServerFrameOf, ToolArguments, ToolCallFrame } from "./codelab";
import type { ToolCallFrameOf, ToolResults } from "./codelab";

declare const socket: { send(text: string): void };
const send = (frame: ClientFrame) => socket.send(JSON.stringify(frame));

export function receive(frame: ServerFrame): string {
  switch (frame.type) {
    case "assistant_message":
      return frame.token;
    case "tool_call": {
      const path: unknown = frame.arguments?.["path"]; // large arguments come by `payload_url`
      if (frame.requires_approval) send({ type: "hitl_decision", call_id: frame.call_id, decision: "approve" });
      else if (frame.execute !== false) send({ type: "tool_result", call_id: frame.call_id, result: { path } });
      return frame.tool_name;
    }
    case "session_info":
      return frame.pending_calls.map((call) => call.deadline.toFixed()).join();
    case "error":
      return frame.error_code === "BUSY" ? "later" : frame.message;
    default:
      return frame.type;
  }
}

export function diff(args: ToolArguments["git.diff"]): ToolResults["git.diff"] {
  return { diff: args.staged ? args.path : "" };
}

export function shown(call: ToolCallFrame): string {
  const known = call as KnownCallFrame; // as `isCallOf` of the client does
  switch (known.tool_name) {
    case "edit_file":
      return known.arguments?.edits.map((edit) => edit.new).join() ?? "";
    case "propose_plan":
      return known.arguments?.steps.join() ?? "";
    default:
      return known.tool_name;
  }
}

// @ts-expect-error a command has no path
export const path: string = ({} as ToolCallFrameOf<"run_command">).arguments!.path.trim();
export const status: ServerFrameOf<"agent_status">["status"] = "waiting_approval";

// @ts-expect-error a decision is one of three
send({ type: "hitl_decision", call_id: "c", decision: "perhaps" });
// @ts-expect-error a file has a path
export const nameless: ToolArguments["read_file"] = {};
// @ts-expect-error a message says something
send({ type: "user_message" });
// @ts-expect-error there is no such frame
send({ type: "nonsense" });
// @ts-expect-error a token is a text
export const token: number = ({} as ServerFrameOf<"assistant_message">).token;
"""


def compiled(folder: Path, source: str) -> str:
    """The strict compiler's errors about `source` with the declarations."""
    node = node_with(NODE_PROJECT)
    (folder / "codelab.d.ts").write_text(DECLARATIONS.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "client.ts").write_text(source, encoding="utf-8")
    compiler = NODE_PROJECT / "node_modules/typescript/bin/tsc"
    checks = ("--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess")
    language = ("--target", "es2022", "--lib", "es2022")  # without the types of a browser
    done = run(node, str(compiler), *checks, "--noEmit", *language, "client.ts", cwd=folder)
    return done.stdout + done.stderr


def test_a_typed_client_compiles(tmp_path: Path) -> None:
    examples = [
        f"export const {direction}_{name}_{n}: {direction} = {json.dumps(example)};"
        for direction in ("ClientFrame", "ServerFrame")
        for name, schema in frames_of(DOCUMENT, direction).items()
        for n, example in enumerate(schema["examples"])
    ]
    assert compiled(tmp_path, CLIENT + "\n".join(examples)) == ""


def test_mistakes_are_type_errors(tmp_path: Path) -> None:
    source = 'import type { ClientFrame } from "./codelab";\nexport const frame: ClientFrame = { type: "resume" };\n'
    assert "last_seq" in compiled(tmp_path, source)


def test_schemas_are_converted_to_types() -> None:
    assert type_of({"type": "array", "items": {"enum": ["a", 1]}}) == '("a" | 1)[]'
    assert type_of({"type": "object", "additionalProperties": {"type": "integer"}}) == "Record<string, number>"
    assert type_of({"type": ["string", "null"]}) == "string | null"
    assert type_of({"anyOf": [{"type": "integer"}, {"type": "number"}]}) == "number"
    assert type_of({"type": "object", "properties": {"a-b": {}}}) == '{ "a-b"?: unknown; }'
