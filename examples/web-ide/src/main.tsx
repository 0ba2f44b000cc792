// A web IDE: files, an editor, and an agent that reads them, and changes them after you have seen the difference.
// The alias in package.json is for the linked client, which has a React of its own to be tested with.

import { isCallOf, ToolError, type CallPart, type CatalogueTools, type Conversation, type Message, type Part, type ToolCallFrame } from "@codelab/client";
import { useCodelab } from "@codelab/client/react";
import { python } from "@codemirror/lang-python";
import { unifiedMergeView } from "@codemirror/merge";
import { basicSetup, EditorView } from "codemirror";
import { memo, useEffect, useReducer, useRef, useState } from "react";
import { createRoot } from "react-dom/client";

const SERVER = new URLSearchParams(location.search).get("server") ?? "ws://localhost:8000";

// -- the files, which a real IDE has elsewhere -------------------------------------------------------------------

const files = new Map([
  ["main.py", 'from greeting import greet\n\nprint(greet("World"))\n'],
  ["greeting.py", 'def greet(name: str) -> str:\n    return f"Hello, {name}!"\n'],
]);
/** The text that a call's difference was shown against, by `call_id`. */
const shownTexts = new Map<string, string | undefined>();
let drawFiles = () => {};

function saveFile(path: string, text: string): void {
  files.set(path, text);
  drawFiles();
}

function readFile(path: string): string {
  const text = files.get(path);
  if (text === undefined) throw new ToolError("FILE_NOT_FOUND", `There is no file ${path}`);
  return text;
}

// -- what the agent may do ---------------------------------------------------------------------------------------

/** The file that a call would write; undefined if it writes none. Throws a ToolError if it cannot be executed. */
function newTextOf(call: ToolCallFrame): { path: string; text: string } | undefined {
  if (isCallOf(call, "write_file") && call.arguments) return { path: call.arguments.path, text: call.arguments.content };
  if (!isCallOf(call, "edit_file") || !call.arguments) return undefined;
  const { path, edits } = call.arguments;
  let text = readFile(path);
  for (const edit of edits) {
    const pieces = text.split(edit.old);
    if (pieces.length !== 2 && !(edit.replace_all && pieces.length > 2)) {
      throw new ToolError("PATCH_APPLY_FAILED", `${path} has the text ${pieces.length - 1} times: ${edit.old}`);
    }
    text = pieces.join(edit.new);
  }
  return { path, text };
}

/** Execute a call as it was shown: against the same text. */
function execute(call: ToolCallFrame): { success: true } {
  const change = newTextOf(call);
  if (!change) throw new ToolError("INVALID_ARGUMENTS", "There is nothing to write");
  if (!shownTexts.has(call.call_id) || shownTexts.get(call.call_id) !== files.get(change.path)) {
    throw new ToolError("EXECUTION_FAILED", `${change.path} has changed since the user saw this call. Read it again.`);
  }
  saveFile(change.path, change.text);
  return { success: true };
}

const asFrame = (tool_name: string, call_id: string, args: object) =>
  ({ type: "tool_call", tool_name, call_id, requires_approval: false, arguments: args }) as ToolCallFrame;

const tools: CatalogueTools = {
  list_files: () => ({ files: [...files.keys()].map((name) => ({ name, type: "file" })) }),
  read_file: ({ path }) => ({ content: readFile(path) }),
  write_file: (args, { callId }) => execute(asFrame("write_file", callId, args)),
  edit_file: (args, { callId }) => execute(asFrame("edit_file", callId, args)),
};

// -- the views ---------------------------------------------------------------------------------------------------

function App() {
  const { state, conversation } = useCodelab({ url: SERVER, tools });
  const [open, setOpen] = useState("main.py");
  const [, draw] = useReducer((n: number) => n + 1, 0);
  useEffect(() => void (drawFiles = draw), []);
  return (
    <main>
      <nav aria-label="Files">
        {[...files.keys()].sort().map((path) => (
          <button key={path} aria-current={path === open} onClick={() => setOpen(path)}>
            {path}
          </button>
        ))}
      </nav>
      <Editor path={open} text={files.get(open) ?? ""} />
      <section aria-label="Agent">
        <ol>
          {state.messages.map((message) => (
            <MessageView key={message.id} message={message} conversation={conversation} />
          ))}
        </ol>
        <p role="status">{state.connection.state === "online" ? state.status : `${state.connection.state} ${state.connection.error?.message ?? ""}`}</p>
        <Prompt conversation={conversation} isRunning={state.status !== "idle" && state.status !== "error"} />
      </section>
    </main>
  );
}

/** The text of a file. What is typed is saved at once; what the agent writes appears. */
function Editor({ path, text }: { path: string; text: string }) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  useEffect(() => {
    const saves = EditorView.updateListener.of((update) => {
      if (update.docChanged) saveFile(path, update.state.doc.toString());
    });
    view.current = new EditorView({ doc: files.get(path) ?? "", extensions: [basicSetup, python(), saves], parent: place.current! });
    return () => view.current?.destroy();
  }, [path]);
  useEffect(() => {
    const { state } = view.current!;
    if (state.doc.toString() !== text) view.current!.dispatch({ changes: { from: 0, to: state.doc.length, insert: text } });
  }, [path, text]);
  return <div className="editor" ref={place} />;
}

const MessageView = memo(function MessageView({ message, conversation }: { message: Message; conversation: Conversation | undefined }) {
  if (message.role === "user") return <li className={`user ${message.state}`}>{message.text}</li>;
  return message.parts.map((part) => (
    <li key={part.id} className={part.type}>
      <PartView part={part} conversation={conversation} />
    </li>
  ));
});

const PartView = memo(function PartView({ part, conversation }: { part: Part; conversation: Conversation | undefined }) {
  switch (part.type) {
    case "text":
      return part.text;
    case "thought":
      return <details><summary>Thoughts</summary>{part.text}</details>;
    case "call":
      return <CallView part={part} conversation={conversation} />;
    case "subagent":
      return `${part.agent} (${part.state}): ${part.task}`;
    case "plan":
      return part.items.map((step) => `${step.status === "completed" ? "☑" : "☐"} ${step.text}`).join("\n");
    case "draft":
      return `Writing ${part.draft.path ?? part.draft.tool_name}: ${part.draft.lines} lines`;
    case "switch":
      return `${part.to} answers from here on.`;
    case "error":
      return part.message;
    case "compacted":
      return "The history was shortened for the model.";
  }
});

/** A call: while it waits, what it would change, and the decision. */
function CallView({ part: { call, state, isDeciding, outcome }, conversation }: { part: CallPart; conversation: Conversation | undefined }) {
  const answer = (decision: "approve" | "reject") => void conversation?.answer(call.call_id, { decision });
  return (
    <>
      <p>
        <code>{call.tool_name}</code> {call.paths?.join(", ")} <em>{state}</em> {outcome?.error ? JSON.stringify(outcome.error) : ""}
      </p>
      {state === "asking" && (
        <>
          <Difference call={call} />
          <button disabled={isDeciding || !call.arguments} onClick={() => answer("approve")}>Approve</button>
          <button disabled={isDeciding} onClick={() => answer("reject")}>Reject</button>
        </>
      )}
    </>
  );
}

function Difference({ call }: { call: ToolCallFrame }) {
  const place = useRef<HTMLDivElement>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    try {
      const change = newTextOf(call);
      if (!change) return setProblem(JSON.stringify(call.arguments, null, 2));
      const before = files.get(change.path);
      shownTexts.set(call.call_id, before);
      const extensions = [unifiedMergeView({ original: before ?? "", mergeControls: false }), EditorView.editable.of(false)];
      const view = new EditorView({ doc: change.text, extensions, parent: place.current! });
      return () => view.destroy();
    } catch (error) {
      return setProblem((error as Error).message);
    }
  }, [call]);
  return <div ref={place}>{problem && <pre>{problem}</pre>}</div>;
}

function Prompt({ conversation, isRunning }: { conversation: Conversation | undefined; isRunning: boolean }) {
  const [text, setText] = useState("");
  const send = () => {
    if (text.trim()) conversation?.prompt(text);
    setText("");
  };
  return (
    <form onSubmit={(event) => (event.preventDefault(), send())}>
      <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} placeholder="Ask the agent" />
      <button disabled={!conversation}>Send</button>
      {isRunning && <button type="button" onClick={() => void conversation?.cancel()}>Stop</button>}
    </form>
  );
}

createRoot(document.getElementById("app")!).render(<App />);
