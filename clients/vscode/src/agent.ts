import {
  type CatalogueTools,
  type Conversation,
  type ConversationState,
  createConversation,
  EMPTY,
  type OwnTool,
  SessionError,
  type Tool,
  type ToolCallFrame,
} from "@codelab/client";
import * as vscode from "vscode";
import { visibleLine } from "../../web/src/conversation/safe.ts";
import { type Change, changesOf } from "../../web/src/workspace/changes.ts";
import { Expectations, viewOf } from "../../web/src/workspace/expectations.ts";
import { fileTools } from "../../web/src/workspace/file_tools.ts";
import { Notes, PROJECT, type Scope } from "../../web/src/notes/notes.ts";
import { imageTool, mentionedImages } from "./images.ts";
import { type Kept, projectsNotes } from "./notes.ts";
import type { CommandRunner, GitReader, Platform } from "./platform.ts";
import type { Proposals } from "./proposals.ts";
import type { Questions } from "./questions.ts";
import { Reviews } from "./reviews.ts";
import { type Server, server, type Tokens } from "./settings.ts";
import { WorkspaceFiles } from "./workspace_files.ts";

/** What the workspace's last conversation is remembered as. */
const SESSION = "session";
/** The project's words for those who work on it, at the top of the folder. */
const INSTRUCTIONS = "AGENTS.md";
const MOST_INSTRUCTIONS = 32_000;

interface Parts {
  context: vscode.ExtensionContext;
  platform: Platform;
  tokens: Tokens;
  proposals: Proposals;
  questions: Questions;
}

interface Hello extends Record<string, unknown> {
  instructions: { path: string; content: string }[];
}

interface Open {
  conversation: Conversation;
  /** Undefined if the agent has no tools here. */
  files: WorkspaceFiles | undefined;
  /** What each connection begins with. */
  hello: Hello;
  reviews: Reviews;
  unfollow(): void;
}

/** The conversation of this window: opens and closes it, and executes its calls. */
export class Agent implements vscode.Disposable {
  readonly #parts: Parts;
  readonly #changed = new vscode.EventEmitter<void>();
  #commands: CommandRunner | undefined;
  #open: Open | undefined;
  /** Counts what is opened: of two at the same time, the later one stays. */
  #opening = 0;
  /** Messages are sent in their order, also if reading an image takes a while. */
  #prompting: Promise<void> = Promise.resolve();
  /** There is another state to show. */
  readonly onDidChange = this.#changed.event;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async dispose(): Promise<void> {
    this.#opening++;
    this.#commands?.dispose();
    await this.#close();
    this.#changed.dispose();
  }

  get state(): ConversationState {
    return this.#open?.conversation.state ?? EMPTY;
  }

  get conversation(): Conversation | undefined {
    return this.#open?.conversation;
  }

  get reviews(): Reviews | undefined {
    return this.#open?.reviews;
  }

  /** Why the agent has no tools here; empty if it has. */
  get restriction(): string {
    if (!vscode.workspace.workspaceFolders?.length) return "No folder is open: the agent can talk, but reads no files.";
    if (!vscode.workspace.isTrusted) return "You do not trust this workspace: the agent can talk, but reads no files and runs nothing.";
    return "";
  }

  /** Whether the session ended because the server wants another token. */
  get needsToken(): boolean {
    const { error } = this.state.connection;
    return error instanceof SessionError && error.kind === "unauthorized";
  }

  /**
   * Send a message, with the images of the folder that it mentions. What the user and the project want agents to know is told
   * before it, if that has changed. Throws an Error if an image cannot be sent.
   */
  prompt(text: string): Promise<void> {
    const open = this.#open;
    const sending = this.#prompting.then(async () => {
      if (!open) return;
      const { conversation, files } = open;
      const { info } = conversation.session;
      const attachments = files && info ? await mentionedImages(text, files, { ...info.limits }) : [];
      const takesImages = info?.models.find(({ name }) => name === info.model)?.images !== false;
      if (attachments.length && !takesImages) void vscode.window.showWarningMessage(`${info?.model} takes no images: the message goes without.`);
      await this.#tell(open);
      conversation.prompt(text, attachments.length && takesImages ? { attachments } : {});
    });
    this.#prompting = sending.catch(() => {});
    return sending;
  }

  /** The notes of the user and of the folder, which is the workspace's first. */
  get kept(): Kept {
    const { notes: ofUser } = this.#parts.platform;
    const root = this.#root;
    const name = (scope: Scope) => (scope === "project" ? PROJECT : ofUser!.path);
    return {
      notes: this.#notes(root && new WorkspaceFiles(root)),
      nameOf: (scope) => visibleLine(name(scope)),
      uriOf: (scope) => (scope === "project" ? vscode.Uri.joinPath(root!, ...PROJECT.split("/")) : vscode.Uri.file(name(scope))),
    };
  }

  #notes(files: WorkspaceFiles | undefined): Notes {
    const { notes: user } = this.#parts.platform;
    return new Notes({ ...(user && { user }), ...(files && { project: projectsNotes(files) }) });
  }

  async #instructions(files: WorkspaceFiles | undefined): Promise<Hello["instructions"]> {
    return [...(await this.#notes(files).instructions()), ...(files ? await instructionsOf(files) : [])];
  }

  async #tell({ conversation, files, hello }: Open): Promise<void> {
    const instructions = await this.#instructions(files);
    if (JSON.stringify(instructions) === JSON.stringify(hello.instructions)) return;
    hello.instructions = instructions;
    conversation.session.request({ type: "hello", instructions }).catch((error: unknown) => {
      void vscode.window.showWarningMessage(`The agent could not be told the notes: ${String(error)}`);
    });
  }

  get #root(): vscode.Uri | undefined {
    return this.restriction ? undefined : vscode.workspace.workspaceFolders?.[0]?.uri;
  }

  /** Open a conversation, in place of the one that is open: that with an id or, without, a new one. */
  async open(sessionId?: string): Promise<void> {
    const number = ++this.#opening;
    await this.#close();
    const to = server();
    const root = this.#root;
    const files = root && new WorkspaceFiles(root);
    const expectations = new Expectations();
    const reviews = new Reviews(files, expectations, this.#parts.proposals);
    let conversation: Conversation;
    let hello: Hello;
    try {
      hello = await this.#hello(files);
      conversation = this.#created(to, files, expectations, hello, sessionId);
    } catch (error) {
      reviews.dispose();
      throw error;
    }
    if (number !== this.#opening) return reviews.dispose();
    const follow = () => {
      reviews.follow(conversation, conversation.state);
      if (conversation.state.messages.length) void this.#remember(conversation);
      this.#changed.fire();
    };
    const unsubscribe = conversation.subscribe(follow);
    const looks = reviews.onDidChange(() => this.#changed.fire());
    this.#open = { conversation, files, hello, reviews, unfollow: () => (unsubscribe(), looks.dispose()) };
    this.#changed.fire();
    await conversation.open();
  }

  /** The workspace's last conversation; a new one if there was none. */
  async resume(): Promise<void> {
    await this.open(this.#parts.context.workspaceState.get<string>(SESSION));
  }

  async #remember({ session }: Conversation): Promise<void> {
    const { workspaceState } = this.#parts.context;
    if (workspaceState.get(SESSION) !== session.sessionId) await workspaceState.update(SESSION, session.sessionId);
  }

  async #close(): Promise<void> {
    const closing = this.#open;
    this.#open = undefined;
    closing?.unfollow();
    closing?.reviews.dispose();
    await closing?.conversation.close();
  }

  async #hello(files: WorkspaceFiles | undefined): Promise<Hello> {
    const { os, shell } = this.#parts.platform;
    return { instructions: await this.#instructions(files), environment: { os, shell, sandbox: "none: commands run as the user" } };
  }

  #created(to: Server, files: WorkspaceFiles | undefined, expectations: Expectations, hello: Hello, sessionId?: string): Conversation {
    const { context, platform, tokens, questions } = this.#parts;
    const { WebSocket, platform: system } = platform;
    return createConversation({
      ...to,
      sessionId,
      WebSocket,
      platform: system,
      token: () => tokens.of(to.url),
      tools: files ? this.#tools(files, expectations) : {},
      ownTools: files && [viewImage(files)],
      decidedElsewhere: async (call) => questions.runsHere(to.url, call, files ? await shownChanges(files, expectations, call) : []),
      client: { name: "codelab-vscode", version: String((context.extension.packageJSON as { version?: unknown }).version) },
      capabilities: { drafts: true },
      hello,
    });
  }

  #tools(files: WorkspaceFiles, expectations: Expectations): CatalogueTools {
    const { platform, questions } = this.#parts;
    const changed = (_: unknown, made?: { callId: string; changes: readonly Change[] }) => {
      if (made) this.conversation?.dispatch({ type: "diffed", callId: made.callId, diff: made.changes });
    };
    const { tools } = fileTools({ folder: async () => files, dialogue: questions, changed, expectations });
    this.#commands ??= files.root.scheme === "file" ? platform.commands() : undefined;
    const commands = this.#commands;
    if (commands) {
      tools["run_command"] = async (args: { command: string; cwd?: string }, context) =>
        commands.run(args.command, (await files.uriOf(args.cwd ?? ".")).fsPath, context);
    }
    const { git } = platform;
    if (git && files.root.scheme === "file") Object.assign(tools, gitTools(git, files.root.fsPath));
    return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, whileTrusted(tool)])) as CatalogueTools;
  }
}

function gitTools(git: GitReader, folder: string): CatalogueTools {
  return {
    "git.diff": ({ path, staged = false }, context) => git.diff(folder, path, staged, context),
    "git.status": ({ path = "." }, context) => git.status(folder, path, context),
    "git.log": ({ path, limit = 10 }, context) => git.log(folder, path, limit, context),
  };
}

function viewImage(files: WorkspaceFiles): OwnTool {
  const tool = imageTool(files);
  return { ...tool, execute: whileTrusted(tool.execute) };
}

/** A tool that does nothing when the workspace is not trusted. */
function whileTrusted(tool: Tool<any>): Tool<any> {
  return (args, context) => {
    if (!vscode.workspace.isTrusted) throw new Error("The user does not trust this workspace");
    return tool(args, context);
  };
}

/** What a call would change now, which the user is about to see: it runs only against that. */
async function shownChanges(files: WorkspaceFiles, expectations: Expectations, call: ToolCallFrame): Promise<readonly Change[]> {
  const { call_id: callId, tool_name: tool, arguments: args = {} } = call;
  const before = await viewOf(files, tool, args);
  const changes = await changesOf(files, tool, args).catch((): Change[] => []);
  expectations.shown(callId, before, await viewOf(files, tool, args));
  return changes;
}

async function instructionsOf(files: WorkspaceFiles): Promise<{ path: string; content: string }[]> {
  const content = await files.read(INSTRUCTIONS).then(
    (file) => file.content,
    () => "",
  );
  return content ? [{ path: INSTRUCTIONS, content: content.slice(0, MOST_INSTRUCTIONS) }] : [];
}
