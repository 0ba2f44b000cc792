import type { Journal, Outcome } from "./journal.ts";
import type { SessionOptions } from "./options.ts";
import { isProtected, mayHoldProtected } from "./protected.ts";
import type { Remember, RuleInfo, ToolCallFrame } from "./protocol.ts";
import type { Answer } from "./session.ts";

/** Tools of the catalogue that change nothing. A server may say so of others, so the client has its own list. */
const READS = new Set([
  "read_file",
  "list_files",
  "find_files",
  "search_in_project",
  "read_process",
  "git.diff",
  "git.status",
  "git.log",
  "apply_patch_review",
  "prompt_user",
]);
/** Calls of these are decided about one by one: no mode and no pattern covers them. */
const ALWAYS = ["run_command", "run_persistent", "fetch_url"];
/** Tools of which a rule covers the same paths; of all others, the same arguments. */
const BY_PATH = ["write_file", "edit_file", "create_directory", "delete_file", "move_file", "git.commit"];
const PATHS = ["path", "from", "to", "cwd", "files"];
const WITH_PATHS = new Set([...READS, ...BY_PATH, ...ALWAYS]);
/** Calls that may take whole folders. */
const TREES = ["delete_file", "move_file"];
const ALIASES: Record<string, string> = { execute_command: "run_command", write_to_file: "write_file" };
const CONSENTS = "consents";
const REJECTED = "rejected";

type Arguments = Record<string, unknown>;

/** Whether a released call may be executed. */
export type Verdict =
  | "runs"
  /** It is not the call that the user has approved here. */
  | "changed"
  | "rejected"
  /** It needs a decision, and nobody has made it here. */
  | "elsewhere";

type DecisionsOptions = Pick<SessionOptions, "decidedElsewhere" | "ownTools" | "tools">;

/** What the user of this client has decided in a session, in its journal, so that it outlives the page or process. */
export class Decisions {
  readonly #journal: Journal;
  readonly #options: DecisionsOptions;
  readonly #rules = new Map<string, string>();
  /** What was allowed with a call's decision, which the server may refuse. */
  readonly #unsure = new Map<string, string>();
  /** For a journal of others, which keeps no decisions. */
  readonly #memory = new Map<string, string>();

  constructor(journal: Journal, options: DecisionsOptions) {
    this.#journal = journal;
    this.#options = options;
  }

  /** The user has decided about a call. */
  async answered(callId: string, answer: Answer, call: ToolCallFrame | undefined): Promise<void> {
    if (answer.decision === "reject") return this.rejected(callId);
    const args = answer.decision === "edit" ? answer.arguments : call?.arguments;
    if (call && args) await this.approved(callId, call.tool_name, args, answer.remember);
    if (answer.mode) await this.acceptedPlan(callId, answer.mode);
  }

  async approved(callId: string, tool: string, args: Arguments, remember?: Remember): Promise<void> {
    await this.#keep(`call:${callId}`, await digest(tool, args));
    if (!remember) return;
    const consent = remember.pattern ? ["pattern", tool, remember.pattern] : await similar(tool, args);
    this.#unsure.set(callId, JSON.stringify(consent));
    await this.#consent([...(await this.#consents()), consent]);
  }

  rejected(callId: string): Promise<void> {
    return this.#withdrawn(callId, REJECTED);
  }

  /** The server did not take the decision: the call was decided before, or is asked about again. */
  refused(callId: string): Promise<void> {
    return this.#withdrawn(callId, "");
  }

  async #withdrawn(callId: string, decision: string): Promise<void> {
    const unsure = this.#unsure.get(callId);
    this.#unsure.delete(callId);
    if (unsure) await this.#consent((await this.#consents()).filter((consent) => JSON.stringify(consent) !== unsure));
    await this.#keep(`call:${callId}`, decision);
  }

  /** The mode that the user has chosen here, under either of its names. */
  async choseMode(mode: string): Promise<void> {
    const others = (await this.#consents()).filter(([kind]) => kind !== "autonomy");
    await this.#consent(mode === "autonomous" ? [...others, ["autonomy"]] : others);
  }

  /** The user accepts a plan, which is carried out in this mode. */
  async acceptedPlan(callId: string, mode: string): Promise<void> {
    await this.choseMode(mode);
    if (mode === "autonomous") this.#unsure.set(callId, JSON.stringify(["autonomy"]));
  }

  sawRules(rules: readonly RuleInfo[]): void {
    for (const rule of rules) this.#rules.set(rule.rule_id, rule.tool_name);
  }

  /** What was allowed for a rule's tool is allowed no longer. */
  async revoked(ruleId: string): Promise<void> {
    const tool = this.#rules.get(ruleId);
    await this.#consent((await this.#consents()).filter(([kind, about]) => kind === "autonomy" || (tool && tool !== about)));
  }

  /** Why a released call must not be executed, or nothing. */
  async refusal(call: ToolCallFrame): Promise<Outcome | undefined> {
    const { call_id: callId, tool_name: tool, arguments: args = {} } = call;
    const { decidedElsewhere = false } = this.#options;
    const verdict = await this.verdict(call);
    if (verdict === "runs" || (verdict === "elsewhere" && decidedElsewhere === true)) return undefined;
    let message = "The call was not executed: ";
    if (verdict === "changed") message += "it is not the one that the user has approved";
    else if (verdict === "rejected") message += "the user has rejected it";
    else {
      const runs = typeof decidedElsewhere === "function" && (await decidedElsewhere(call));
      await (runs ? this.approved(callId, tool, args) : this.rejected(callId));
      if (runs) return undefined;
      message += "it was approved elsewhere, and the user of the client that executes calls did not let it run";
    }
    return { error: { code: "PERMISSION_DENIED", message } };
  }

  /** Whether a tool of the client's own only reads. */
  #isHarmless(name: string): boolean {
    const { tools = {}, ownTools = [] } = this.#options;
    return !Object.hasOwn(tools, name) && !!ownTools.find((tool) => tool.name === name)?.read_only;
  }

  async verdict({ call_id: callId, tool_name: tool, arguments: args = {} }: ToolCallFrame): Promise<Verdict> {
    this.#unsure.delete(callId); // the server has taken the decision
    const decided = await this.#kept(`call:${callId}`);
    if (decided) return decided === (await digest(tool, args)) ? "runs" : decided === REJECTED ? "rejected" : "changed";
    if (READS.has(tool) || this.#isHarmless(tool) || (tool === "git.branch" && args["action"] === "list")) return "runs";
    const same = JSON.stringify(await similar(tool, args));
    const asks = alwaysAsks(tool, args);
    for (const consent of await this.#consents()) {
      if (JSON.stringify(consent) === same) return "runs";
      const [kind, about, pattern] = consent;
      if (asks) continue;
      if (kind === "autonomy") return "runs";
      if (kind === "pattern" && about === tool && matches(pattern ?? "", pathsOf(args))) return "runs";
    }
    return "elsewhere";
  }

  async #consents(): Promise<string[][]> {
    return JSON.parse((await this.#kept(CONSENTS)) || "[]") as string[][];
  }

  #consent(consents: string[][]): Promise<void> {
    return this.#keep(CONSENTS, JSON.stringify(consents));
  }

  async #keep(name: string, decision: string): Promise<void> {
    if (this.#journal.decide) await this.#journal.decide(name, decision);
    else this.#memory.set(name, decision);
  }

  async #kept(name: string): Promise<string | undefined> {
    return this.#journal.decided ? this.#journal.decided(name) : this.#memory.get(name);
  }
}

/** Equal for the same call, however its paths are spelled. */
export async function digest(tool: string, args: Arguments): Promise<string> {
  const name = ALIASES[tool] ?? tool;
  const text = JSON.stringify([name, sorted(args, WITH_PATHS.has(name))]);
  if (!globalThis.crypto?.subtle) return text; // a page without TLS
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function similar(tool: string, args: Arguments): Promise<string[]> {
  if (tool === "fetch_url") {
    const origin = /^https?:\/\/[a-z0-9._-]+(:\d+)?(?=[/?#]|$)/i.exec(String(args["url"]))?.[0];
    if (origin) return ["similar", tool, origin.toLowerCase()];
  }
  const paths = BY_PATH.includes(tool) ? pathsOf(args) : [];
  return ["similar", tool, paths.length ? JSON.stringify(paths) : await digest(tool, args)];
}

/** Whether no mode and no pattern covers a call: it runs a program or lets one run, or tells others something. */
function alwaysAsks(tool: string, args: Arguments): boolean {
  const name = ALIASES[tool] ?? tool;
  if (ALWAYS.includes(name) || name === "apply_patch") return true; // what a patch changes is not read here
  if (!BY_PATH.includes(name)) return false;
  const paths = pathsOf(args);
  return paths.some(isProtected) || (TREES.includes(name) && paths.some(mayHoldProtected));
}

function pathsOf(args: Arguments): string[] {
  const named = PATHS.flatMap((name) => args[name] ?? []);
  return named.map((path) => normal(String(path)));
}

/** Whether a rule's pattern covers a call: all its paths. */
function matches(pattern: string, paths: string[]): boolean {
  if (pattern === "**") return true;
  const parts: Record<string, string> = { "**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]" };
  const turned = pattern.split(/(\*\*\/|\*\*|\*|\?)/).map((part) => parts[part] ?? part.replace(/[\\^$.|+()[\]{}]/g, "\\$&"));
  const glob = new RegExp(`^${pattern.includes("/") ? "" : "(?:.*/)?"}${turned.join("")}$`, "s");
  return paths.length > 0 && paths.every((path) => glob.test(path));
}

/** The arguments without those that are null, in one order, each path in one spelling. */
function sorted(args: Arguments, hasPaths: boolean): unknown {
  const present = Object.entries(args).filter(([, value]) => value != null);
  return deep(Object.fromEntries(present.map(([name, value]) => [name, hasPaths && PATHS.includes(name) ? spelled(value) : value])));
}

function spelled(value: unknown): unknown {
  return Array.isArray(value) ? value.map(spelled) : typeof value === "string" ? normal(value) : value;
}

function deep(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(deep);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return { fields: fields.map(([name, inner]) => [name, deep(inner)]) };
}

/** A path without empty names and `.`, and without one slash at its beginning, which the server removes. */
function normal(path: string): string {
  return path.replace(/^\//, "").split("/").filter((name) => name && name !== ".").join("/") || ".";
}
