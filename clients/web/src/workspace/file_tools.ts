import { type CallContext, type Tool, ToolError } from '@codelab/client';
import { type Change, changesOf, make } from './changes.ts';
import { Changed, type Expectations, fingerprint, ofBytes, ofText, viewOf } from './expectations.ts';
import { type Files, MOST_BYTES } from './files.ts';
import { matches, names } from './paths.ts';
import { chosen, type FilePatch, parsed } from './patches.ts';
import { search } from './search.ts';

/** What the tools ask the user. Undefined: the user closed the question. */
export interface Dialogue {
  choose(message: string, actions: readonly string[], signal: AbortSignal): Promise<string | undefined>;
  review(message: string, files: readonly FilePatch[], signal: AbortSignal): Promise<ReadonlySet<number> | undefined>;
  /** Whether a call that was approved is still wanted, now that it makes these changes. */
  confirm(message: string, changes: readonly Change[], signal: AbortSignal): Promise<boolean | undefined>;
}

export interface FileEnvironment<Place extends Files> {
  /** The open folder. Throws a ToolError if there is none. */
  folder(): Promise<Place>;
  dialogue: Dialogue;
  /** Tells that the agent has changed files; and what a call has changed, if that are texts. */
  changed(paths: readonly string[], made?: { callId: string; changes: readonly Change[]; folder: Place }): void;
  /** What the model knows and the user has seen. */
  expectations: Expectations;
}

export interface FileTools {
  tools: Record<string, Tool<any>>;
  /** Runs changes one after the other: what a call has read must not change before it writes. */
  alone<Value>(action: () => Promise<Value>): Promise<Value>;
}

/** Times that the user is asked again about one call. */
const QUESTIONS = 5;

type Arguments = Record<string, unknown>;

/** The tools that read and change files, and those that ask the user. */
export function fileTools<Place extends Files>({ folder, dialogue, changed, expectations }: FileEnvironment<Place>): FileTools {
  let changing: Promise<unknown> = Promise.resolve();

  const alone = <Value>(action: () => Promise<Value>): Promise<Value> => {
    const done = changing.then(action, action);
    changing = done.catch(() => {});
    return done;
  };
  /** Makes a change; if its file is another one than the user has seen, asks about what would change now. */
  const bound = async <Value>(tool: string, args: Arguments, { callId, signal }: CallContext, action: () => Promise<Value>): Promise<Value> => {
    for (let asked = 0; ; asked++) {
      try {
        return await alone(action);
      } catch (error) {
        if (!(error instanceof Changed)) throw error;
        if (!expectations.wasShown(callId) || asked === QUESTIONS) {
          throw tool === 'edit_file' || tool === 'apply_patch' ? new ToolError('PATCH_APPLY_FAILED', error.message) : error;
        }
        const open = await folder();
        const before = await viewOf(open, tool, args);
        const found = await changesOf(open, tool, args);
        if ((await dialogue.confirm(error.why, found, signal)) !== true) {
          throw new ToolError('PERMISSION_DENIED', 'The user did not want the change any more, because the file was changed after it was shown');
        }
        expectations.shown(callId, before, before);
      }
    }
  };
  const changes = (tool: string) => (args: Arguments, context: CallContext) =>
    bound(tool, args, context, async () => {
      const open = await folder();
      const found = await changesOf(open, tool, args);
      const before = await Promise.all(found.map((change) => ofText(change.before)));
      found.forEach((change, index) => expectations.check(context.callId, change.path, before[index]!, tool === 'write_file'));
      await make(open, found);
      const after = await Promise.all(found.map((change) => ofText(change.after)));
      found.forEach((change, index) => expectations.made(change.path, before[index]!, after[index]!));
      changed(found.map((change) => change.path), { callId: context.callId, changes: found, folder: open });
      return found;
    });
  /** Throws unless a file, or each file of a directory, may be deleted by this call. */
  const checkKnown = async (open: Place, path: string, now: string | null, callId: string): Promise<void> => {
    if (expectations.wasShown(callId) || !now?.startsWith('directory')) return expectations.check(callId, path, now, true);
    for await (const item of open.walk(path, true)) {
      if (item.type === 'file') expectations.check(callId, item.path, await fingerprint(open, item.path), true);
    }
  };
  const [write, edit, patch] = [changes('write_file'), changes('edit_file'), changes('apply_patch')];

  const tools: Record<string, Tool<any>> = {
    read_file: async (args: { path: string; offset?: number; limit?: number }) => {
      const open = await folder();
      if ((await open.stat(args.path)).size <= MOST_BYTES) expectations.read(args.path, await ofBytes(await open.bytes(args.path)));
      return readFile(open, args);
    },
    write_file: async (args: Arguments, context) => {
      const [change] = await write(args, context);
      return { success: true, bytes_written: new TextEncoder().encode(change?.after ?? '').length };
    },
    edit_file: async (args: Arguments, context) => {
      const [change] = await edit(args, context);
      const matched = change?.matched ? { matched: change.matched } : {};
      return { success: true, message: change && change.before === change.after ? 'Nothing was different' : 'Edited', ...matched };
    },
    apply_patch: async (args: Arguments, context) => {
      const found = await patch(args, context);
      return { success: true, files_modified: found.map((change) => change.path) };
    },
    list_files: async (args: { path: string; recursive?: boolean; pattern?: string }) => listFiles(await folder(), args),
    find_files: async (args: { glob: string; path?: string; max_results?: number }) => findFiles(await folder(), args),
    search_in_project: async (args: SearchArguments, { signal }) => {
      // A pattern of the model could keep the only thread busy for ever.
      if (args.regex) throw new ToolError('INVALID_ARGUMENTS', 'This client searches for texts only: search again without regex');
      const { query, path, case_sensitive: caseSensitive, glob, max_results: most, context } = args;
      return search(await folder(), { query, path, caseSensitive, glob, most, context }, signal);
    },
    create_directory: (args: { path: string }) =>
      alone(async () => {
        await (await folder()).createDirectory(args.path);
        changed([args.path]);
        return { success: true };
      }),
    delete_file: (args: { path: string }, context) =>
      bound('delete_file', args, context, async () => {
        const open = await folder();
        const now = await fingerprint(open, args.path);
        await checkKnown(open, args.path, now, context.callId);
        const before = now?.startsWith('directory') ? undefined : await open.read(args.path).catch(() => undefined);
        await open.remove(args.path);
        expectations.made(args.path, now, null);
        const changes = before && [{ path: args.path, before: before.content, after: null }];
        changed([args.path], changes && { callId: context.callId, changes, folder: open });
        return { success: true };
      }),
    move_file: (args: { from: string; to: string }, context) =>
      bound('move_file', args, context, async () => {
        const open = await folder();
        const now = await fingerprint(open, args.from);
        expectations.check(context.callId, args.from, now, false);
        await open.move(args.from, args.to);
        expectations.made(args.from, now, null);
        expectations.made(args.to, null, now);
        changed([args.from, args.to]);
        return { success: true };
      }),
    apply_patch_review: async (args: { diff: string; message?: string }, { signal }) => {
      const files = parsed(args.diff);
      const total = files.reduce((sum, file) => sum + file.hunks.length, 0);
      const selected = await dialogue.review(args.message ?? '', files, signal);
      if (!selected?.size) return { action: 'cancel', chunks_selected: [], chunks_total: total };
      const numbers = [...selected].sort((one, other) => one - other);
      return { action: 'apply', filtered_diff: chosen(files, selected), chunks_selected: numbers, chunks_total: total };
    },
    prompt_user: async (args: { message: string; actions: string[] }, { signal }) => {
      const action = await dialogue.choose(args.message, args.actions, signal);
      if (action === undefined) throw new ToolError('EXECUTION_FAILED', 'The user closed the question');
      return { action };
    },
  };
  return { tools, alone };
}

interface SearchArguments {
  query: string;
  path?: string;
  case_sensitive?: boolean;
  regex?: boolean;
  glob?: string;
  context?: number;
  max_results?: number;
}

async function findFiles(folder: Files, { glob, path = '.', max_results: most = 200 }: { glob: string; path?: string; max_results?: number }) {
  const below = names(path).join('/');
  const found: string[] = [];
  for await (const item of folder.walk(path)) {
    if (item.type === 'file' && matches(glob, below ? item.path.slice(below.length + 1) : item.path)) found.push(item.path);
  }
  return { files: found.sort().slice(0, most), truncated: found.length > most };
}

async function readFile(folder: Files, { path, offset, limit }: { path: string; offset?: number; limit?: number }) {
  const { content, size, modified } = await folder.read(path);
  if (offset == null && limit == null) return { content, encoding: 'utf-8', size, modified };
  const lines = content.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const start = Math.max((offset ?? 1) - 1, 0);
  if (start >= Math.max(lines.length, 1)) {
    return { content: '', encoding: 'utf-8', size, modified, total_lines: lines.length, message: `${path} has only ${lines.length} lines` };
  }
  const part = lines.slice(start, limit == null ? undefined : start + limit);
  return { content: part.join(''), encoding: 'utf-8', size, modified, first_line: start + 1, total_lines: lines.length };
}

async function listFiles(folder: Files, { path, recursive, pattern }: { path: string; recursive?: boolean; pattern?: string }) {
  const below = names(path).join('/');
  const found: { name: string; type: 'file' | 'directory' }[] = [];
  const take = (item: { path: string; type: 'file' | 'directory' }) => {
    const name = below ? item.path.slice(below.length + 1) : item.path;
    if (!pattern || matches(pattern, name)) found.push({ name, type: item.type });
  };
  if (recursive) for await (const item of folder.walk(path)) take(item);
  else for (const item of await folder.list(path)) take(item);
  return { files: found };
}
