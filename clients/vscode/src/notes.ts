import * as vscode from "vscode";
import { visibleLine } from "../../web/src/conversation/safe.ts";
import { checkSize, type Note, type Notes, type Place, PROJECT, type Scope } from "../../web/src/notes/notes.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";

/** The user's notes, in a file beside the workspace. */
export interface UsersNotes extends Place {
  readonly path: string;
}

/** The project's notes, through the editor: no link is followed. */
export function projectsNotes(files: WorkspaceFiles): Place {
  return {
    read: async () => {
      if (!(await files.has(PROJECT))) return "";
      const { content, size } = await files.read(PROJECT);
      checkSize(size);
      return content;
    },
    write: async (content) => void (await files.write(PROJECT, content)),
  };
}

/** What the commands about notes need to know. */
export interface Kept {
  notes: Notes;
  /** The file of the notes, to be opened. */
  uriOf(scope: Scope): vscode.Uri;
  /** The same for people. */
  nameOf(scope: Scope): string;
}

/** Have the user say where a note is kept, and keep it. Without a text, the user is asked for it. */
export async function remember({ notes, nameOf }: Kept, typed: string): Promise<void> {
  const text = typed.trim() || (await vscode.window.showInputBox({ title: "Remember", prompt: "What should agents keep in mind?" }))?.trim();
  if (!text) return;
  const items = (["project", "user"] as const)
    .filter((scope) => notes.places[scope])
    .map((scope) => ({ label: scope === "project" ? "In this project" : "In all my projects", description: nameOf(scope), scope }));
  if (!items.length) throw new Error("Notes are kept in a folder that you trust: open one");
  const chosen = await vscode.window.showQuickPick(items, { title: `Remember: ${visibleLine(text)}` });
  if (!chosen) return;
  await notes.add(chosen.scope, text);
  void vscode.window.showInformationMessage(`Kept in ${nameOf(chosen.scope)}: the agent reads it with your next message`);
}

/** List the notes: one can be changed or taken away, and their files opened. */
export async function chooseNote({ notes, uriOf, nameOf }: Kept): Promise<void> {
  const problems: string[] = [];
  const listed = await notes.listed((error) => problems.push(error instanceof Error ? error.message : String(error)));
  for (const problem of problems) void vscode.window.showWarningMessage(problem);
  const files = [...new Set(listed.map(({ scope }) => scope))];
  const items = [
    ...listed.map((note) => ({ label: visibleLine(note.text), description: nameOf(note.scope), note, scope: note.scope })),
    ...files.map((scope) => ({ label: `$(go-to-file) Open ${nameOf(scope)}`, description: "", note: undefined, scope })),
  ];
  const placeHolder = items.length ? "Choose one to change it or to take it away" : "There are none: “CodeLab: Remember…” keeps one";
  const chosen = await vscode.window.showQuickPick(items, { title: "What agents keep in mind", placeHolder });
  if (!chosen) return;
  if (chosen.note) await change(notes, chosen.note);
  else await vscode.window.showTextDocument(uriOf(chosen.scope));
}

async function change(notes: Notes, note: Note): Promise<void> {
  const items = [{ label: "Change…" }, { label: "Take away" }];
  const action = await vscode.window.showQuickPick(items, { title: visibleLine(note.text) });
  if (action?.label === "Take away") await notes.change(note);
  if (action?.label !== "Change…") return;
  const text = await vscode.window.showInputBox({ title: "Notes", prompt: "What should agents keep in mind?", value: note.text });
  if (text !== undefined) await notes.change(note, text);
}
