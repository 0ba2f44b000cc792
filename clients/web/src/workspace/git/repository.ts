import './buffer.ts';
import { ToolError } from '@codelab/client';
import { structuredPatch } from 'diff';
import * as git from 'isomorphic-git';

const DIFF_BYTES = 5_000_000;
const ENTRIES = 5_000;
const COMMIT_CHARS = 5_000;
const LINK = 0o120000;
const EXECUTABLE = 0o100755;
const FILE = 0o100644;
/** What git-check-ref-format(1) forbids, and names that look like an option or stand for a commit. */
const NOT_A_BRANCH = /[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.$|(^|\/)\.|\.lock(\/|$)|^-|^(@|HEAD)$/;
/** What git is in the middle of. */
const UNFINISHED = ['MERGE_HEAD', 'CHERRY_PICK_HEAD', 'REVERT_HEAD', 'rebase-merge', 'rebase-apply', 'index.lock'];
const HOOKS = ['pre-commit', 'prepare-commit-msg', 'commit-msg', 'post-commit', 'reference-transaction'];

/** One side of a file: what its content hashes to, and its mode as git knows it. */
interface Side {
  oid: string;
  mode: number;
  content(): Promise<Uint8Array>;
}

interface Row {
  path: string;
  head?: Side | undefined;
  index?: Side | undefined;
  work?: Side | undefined;
}

export type Files = git.PromiseFsClient;

/**
 * The git tools on one repository, whose top is `/` of the files. Nothing of its settings or hooks ever runs. Throws
 * ToolErrors. What a page cannot do as git would, it does not do: links and submodules are left alone, and a repository
 * that needs filters, hooks or signatures gets no commit.
 */
export class Repository {
  readonly #at: { fs: Files; dir: string; gitdir: string };

  private constructor(fs: Files) {
    this.#at = { fs, dir: '/', gitdir: '/.git' };
  }

  /** The repository of these files. */
  static async open(fs: Files): Promise<Repository> {
    const found = new Repository(fs);
    const type = (await fs.promises.stat('/.git').catch(() => undefined)) as { isDirectory(): boolean } | undefined;
    if (!type) throw new ToolError('GIT_NOT_INITIALIZED', 'The open folder is not a git repository');
    if (!type.isDirectory()) throw new ToolError('GIT_ERROR', 'The repository of this folder is outside of it, where a page cannot read');
    await found.#refuseWhatIsUnknown();
    await found.#head();
    return found;
  }

  async status(path: string | undefined): Promise<unknown> {
    const files: { path: string; status: string; staged: boolean }[] = [];
    for (const { path: name, head, index, work } of await this.#rows(path)) {
      const staged = changeOf(head, index);
      if (staged) files.push({ path: name, status: staged, staged: true });
      const unstaged = index ? changeOf(index, work) : work && 'untracked';
      if (unstaged) files.push({ path: name, status: unstaged, staged: false });
    }
    const branch = (await git.currentBranch(this.#at)) ?? '(detached)';
    return { branch, files: files.slice(0, ENTRIES), ...(files.length > ENTRIES && { truncated: true }) };
  }

  async diff(path: string, staged: boolean): Promise<unknown> {
    const parts: string[] = [];
    let size = 0;
    for (const { path: name, head, index, work } of await this.#rows(path)) {
      const [before, after] = staged ? [head, index] : [index, work];
      if (!changeOf(before, after) || (!staged && !index)) continue;
      const part = await diffOf(name, before, after);
      size += new TextEncoder().encode(part).length;
      if (size > DIFF_BYTES) throw new ToolError('GIT_ERROR', `The diff has more than ${DIFF_BYTES} bytes; name a path`);
      parts.push(part);
    }
    return { diff: parts.join('') };
  }

  async log(limit: number, path: string | undefined): Promise<unknown> {
    if (!(await this.#head())) return { commits: [] };
    const found = await git.log({ ...this.#at, depth: limit, ...(path && { filepath: path, force: true }) });
    return {
      commits: found.map(({ oid, commit }) => ({
        hash: oid,
        author: commit.author.name,
        date: iso(commit.author.timestamp, commit.author.timezoneOffset),
        message: commit.message.trimEnd().slice(0, COMMIT_CHARS),
      })),
    };
  }

  async branch(action: string, name: string): Promise<unknown> {
    const current = await git.currentBranch(this.#at);
    const branches = await git.listBranches(this.#at);
    if (action === 'list') return { branches: branches.slice(0, ENTRIES), ...(current && { current }) };
    if (action === 'switch') throw new ToolError('GIT_ERROR', 'A page does not switch branches: ask the user to do it, and read the files again');
    if (!name || NOT_A_BRANCH.test(name)) throw new ToolError('INVALID_ARGUMENTS', 'Not a valid name of a branch (see git check-ref-format)');
    const head = await this.#head();
    if (action === 'create') {
      if (!head) throw new ToolError('GIT_ERROR', 'There is no commit yet');
      if (branches.includes(name)) throw new ToolError('GIT_ERROR', `The branch ${name} exists`);
      const clash = branches.find((one) => one.startsWith(`${name}/`) || name.startsWith(`${one}/`));
      if (clash) throw new ToolError('GIT_ERROR', `The branch ${clash} exists, so ${name} cannot`);
      await git.branch({ ...this.#at, ref: name });
      return { success: true, message: `Created ${name}` };
    }
    if (!branches.includes(name)) throw new ToolError('GIT_ERROR', `There is no branch ${name}`);
    if (name === current) throw new ToolError('GIT_ERROR', `${name} is the current branch`);
    const oid = await this.#resolved(`refs/heads/${name}`);
    const isMerged = !!head && !!oid && (oid === head || (await git.isDescendent({ ...this.#at, oid: head, ancestor: oid })));
    if (!isMerged) throw new ToolError('GIT_ERROR', `${name} is not fully merged`);
    await git.deleteBranch({ ...this.#at, ref: name });
    return { success: true, message: `Deleted ${name}, which was ${oid}` };
  }

  /** Commit the staged changes, or only these files as they are; what else is staged then stays so. */
  async commit(message: string, files: readonly string[]): Promise<unknown> {
    await this.#refuseCommits();
    const name = await this.#setting('user.name');
    const email = await this.#setting('user.email');
    if (!name || !email) {
      throw new ToolError('GIT_ERROR', 'The repository does not say who commits, and a page cannot read your other settings: set user.name and user.email in it');
    }
    const head = await this.#head();
    const rows = await this.#rows(undefined);
    await this.#refuseFilters(rows);
    const changes = new Map<string, Side | undefined>();
    if (files.length) {
      for (const file of files) {
        const named = rows.filter(({ path }) => file === '.' || path === file || path.startsWith(`${file}/`));
        if (!named.length) throw new ToolError('FILE_NOT_FOUND', `${file} does not exist, or git ignores it`);
        for (const { path, head, index, work } of named) {
          const mode = index?.mode ?? head?.mode ?? FILE;
          if (work?.oid !== head?.oid || (work && mode !== head?.mode)) changes.set(path, work && { ...work, mode });
          else if (index?.oid !== work?.oid) changes.set(path, work && { ...work, mode }); // Only staged back to what it was.
        }
      }
    } else {
      for (const { path, head, index } of rows) if (changeOf(head, index)) changes.set(path, index);
    }
    const isSame = (path: string) => {
      const row = rows.find((one) => one.path === path);
      return row?.head?.oid === changes.get(path)?.oid && row?.head?.mode === changes.get(path)?.mode;
    };
    if ([...changes.keys()].every(isSame)) throw new ToolError('GIT_ERROR', 'There is nothing to commit');
    for (const [, side] of changes) if (side && files.length) await git.writeBlob({ ...this.#at, blob: await side.content() });
    const before = head && (await git.readCommit({ ...this.#at, oid: head })).commit.tree;
    const tree = (await this.#tree(before, changes)) ?? (await git.writeTree({ ...this.#at, tree: [] }));
    const author = { name, email };
    const hash = await git.commit({ ...this.#at, message: `${message.trim()}\n`, tree, author, committer: author });
    if (files.length) {
      const cache = {};
      for (const [path, side] of changes) {
        if (side) await git.updateIndex({ ...this.#at, cache, filepath: path, oid: side.oid, mode: side.mode, add: true });
        else await git.updateIndex({ ...this.#at, cache, filepath: path, remove: true, force: true });
      }
    }
    return { success: true, hash };
  }

  /** A tree like this one but for the changes, and undefined if it would be empty. Links and submodules stay. */
  async #tree(oid: string | undefined, changes: ReadonlyMap<string, Side | undefined>): Promise<string | undefined> {
    const entries = new Map((oid ? (await git.readTree({ ...this.#at, oid })).tree : []).map((entry) => [entry.path, entry]));
    const below = new Map<string, Map<string, Side | undefined>>();
    for (const [path, side] of changes) {
      const at = path.indexOf('/');
      if (at < 0) {
        if (side) entries.set(path, { path, oid: side.oid, mode: side.mode.toString(8), type: 'blob' });
        else if (entries.get(path)?.type === 'blob') entries.delete(path);
        continue;
      }
      const name = path.slice(0, at);
      if (!below.has(name)) below.set(name, new Map());
      below.get(name)!.set(path.slice(at + 1), side);
    }
    for (const [name, inner] of below) {
      const known = entries.get(name);
      const made = await this.#tree(known?.type === 'tree' ? known.oid : undefined, inner);
      if (made) entries.set(name, { path: name, oid: made, mode: '040000', type: 'tree' });
      else if (known?.type === 'tree') entries.delete(name);
    }
    return entries.size ? git.writeTree({ ...this.#at, tree: [...entries.values()] }) : undefined;
  }

  /** All files at or below the path that the last commit, the index or the folder has, but for ignored ones. */
  async #rows(path: string | undefined): Promise<Row[]> {
    const head = await this.#head();
    const trees = [git.WORKDIR({ refresh: false }), git.STAGE(), ...(head ? [git.TREE({ ref: head })] : [])];
    const map = async (name: string, [work, index, last]: (git.WalkerEntry | null)[]): Promise<Row | null | undefined> => {
      if (name === '.') return undefined;
      if (path && name !== path && !name.startsWith(`${path}/`) && !path.startsWith(`${name}/`)) return null;
      const types = await Promise.all([work?.type(), index?.type(), last?.type()]);
      const known = [types[1], types[2]];
      if (known.includes('commit') || known.includes('special')) return null; // A submodule, or a link.
      if (!known[0] && !known[1] && (await git.isIgnored({ ...this.#at, filepath: name }))) return null;
      if (!types.includes('blob') || (path && path !== name && path.startsWith(`${name}/`))) return undefined;
      const sides = await Promise.all([work, index, last].map((entry, at) => (types[at] === 'blob' ? this.#side(entry!) : undefined)));
      if (sides[1]?.mode === LINK || sides[2]?.mode === LINK) return undefined;
      if (sides[0]) sides[0].mode = sides[1]?.mode ?? sides[2]?.mode ?? FILE; // A browser cannot tell.
      return { path: name, work: sides[0], index: sides[1], head: sides[2] };
    };
    const found = (await git.walk({ ...this.#at, trees, map })) as Row[];
    return found.sort((one, other) => (one.path < other.path ? -1 : 1));
  }

  async #side(entry: git.WalkerEntry): Promise<Side | undefined> {
    const oid = await entry.oid();
    if (!oid) return undefined;
    const content = async () => (await entry.content()) ?? (await git.readBlob({ ...this.#at, oid })).blob;
    return { oid, mode: (await entry.mode()) === EXECUTABLE ? EXECUTABLE : (await entry.mode()) === LINK ? LINK : FILE, content };
  }

  /** The last commit; undefined if there is none yet. */
  #head(): Promise<string | undefined> {
    return this.#resolved('HEAD');
  }

  /** The commit of a reference; undefined if there is none. */
  async #resolved(ref: string): Promise<string | undefined> {
    try {
      // A reference may name another one, and a hostile one itself.
      const oid = await git.resolveRef({ ...this.#at, ref, depth: 5 });
      if (!/^[0-9a-f]{40}$/.test(oid)) throw new ToolError('GIT_ERROR', `The reference ${ref} leads nowhere`);
      return oid;
    } catch (error) {
      if (error instanceof git.Errors.NotFoundError) return undefined;
      throw error;
    }
  }

  async #setting(path: string): Promise<string> {
    return String((await git.getConfig({ ...this.#at, path })) ?? '').trim();
  }

  async #has(path: string): Promise<boolean> {
    return (await this.#at.fs.promises.stat(path).catch(() => undefined)) !== undefined;
  }

  /** Formats that isomorphic-git does not read, or worse, reads wrongly. */
  async #refuseWhatIsUnknown(): Promise<void> {
    for (const [path, harmless] of [
      ['extensions.objectformat', 'sha1'],
      ['extensions.refstorage', 'files'],
      ['extensions.worktreeconfig', 'false'],
      ['extensions.partialclone', ''],
      ['core.splitindex', 'false'],
      ['core.sparsecheckout', 'false'],
      ['index.sparse', 'false'],
    ] as const) {
      const value = await this.#setting(path);
      if (value && value !== harmless) throw new ToolError('GIT_ERROR', `The repository has ${path} = ${value}, which a page does not support`);
    }
  }

  async #refuseCommits(): Promise<void> {
    const branch = await git.currentBranch({ ...this.#at, fullname: true });
    if (branch && NOT_A_BRANCH.test(branch)) throw new ToolError('GIT_ERROR', 'The current branch has no valid name'); // It would be a path.
    for (const name of UNFINISHED) {
      if (await this.#has(`/.git/${name}`)) throw new ToolError('GIT_ERROR', `git is in the middle of something (.git/${name}): ask the user to finish it`);
    }
    for (const name of HOOKS) {
      if (await this.#has(`/.git/hooks/${name}`)) throw new ToolError('GIT_ERROR', `The repository has the hook ${name}, which a page cannot run: ask the user to commit`);
    }
    for (const path of ['core.hookspath', 'commit.gpgsign']) {
      const value = await this.#setting(path);
      if (value && value !== 'false') throw new ToolError('GIT_ERROR', `The repository has ${path} = ${value}, which a page cannot do: ask the user to commit`);
    }
  }

  /** Attributes change contents for the folder that they are in and below. */
  async #refuseFilters(rows: readonly Row[]): Promise<void> {
    const below = rows.flatMap(({ path, work }) => (work && path.endsWith('/.gitattributes') ? [`/${path}`] : []));
    for (const path of ['/.git/info/attributes', '/.gitattributes', ...below]) {
      const text = await this.#at.fs.promises.readFile(path, 'utf8').catch(() => '');
      if (!/\bfilter=|\bworking-tree-encoding=|\bident\b|\beol=/.test(String(text))) continue;
      throw new ToolError('GIT_ERROR', `${path.slice(1)} changes contents (filters, such as LFS), which a page cannot do: ask the user to commit`);
    }
  }
}

function changeOf(before: Side | undefined, after: Side | undefined): string | undefined {
  if (!before) return after && 'added';
  if (!after) return 'deleted';
  return before.oid !== after.oid || before.mode !== after.mode ? 'modified' : undefined;
}

async function diffOf(path: string, before: Side | undefined, after: Side | undefined): Promise<string> {
  const [a, b] = [quoted(`a/${path}`), quoted(`b/${path}`)];
  let text = `diff --git ${a} ${b}\n`;
  if (!before) text += `new file mode ${after!.mode.toString(8)}\n`;
  else if (!after) text += `deleted file mode ${before.mode.toString(8)}\n`;
  else if (before.mode !== after.mode) text += `old mode ${before.mode.toString(8)}\nnew mode ${after.mode.toString(8)}\n`;
  if (before?.oid === after?.oid) return text;
  const [old, fresh] = await Promise.all([before?.content() ?? new Uint8Array(), after?.content() ?? new Uint8Array()]);
  const [from, to] = [before ? a : '/dev/null', after ? b : '/dev/null'];
  if (isBinary(old) || isBinary(fresh)) return `${text}Binary files ${from} and ${to} differ\n`;
  const decode = (bytes: Uint8Array) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  // The page has one thread, so it does not compare for long.
  const patch = structuredPatch('', '', decode(old), decode(fresh), '', '', { context: 3, timeout: 3_000 });
  if (!patch) throw new ToolError('GIT_ERROR', `${path} is too different to be compared in a page`);
  if (!patch.hunks.length) return text;
  text += `--- ${from}\n+++ ${to}\n`;
  for (const { oldStart, oldLines, newStart, newLines, lines } of patch.hunks) {
    text += `@@ -${range(oldStart, oldLines)} +${range(newStart, newLines)} @@\n${lines.join('\n')}\n`;
  }
  return text;
}

function range(start: number, lines: number): string {
  if (lines === 1) return `${start}`;
  return `${lines ? start : start - 1},${lines}`; // Of no lines: the line before.
}

function isBinary(bytes: Uint8Array): boolean {
  return bytes.subarray(0, 8_000).includes(0);
}

/** A path as git writes it: in quotes if it has characters that would break the line. */
function quoted(path: string): string {
  return /["\\\u0000-\u001f\u007f]/.test(path) ? JSON.stringify(path) : path;
}

/** A time of git, which counts the minutes from UTC the other way round. */
function iso(seconds: number, offset: number): string {
  const sign = offset > 0 ? '-' : '+';
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  const local = new Date((seconds - offset * 60) * 1000).toISOString().slice(0, 19);
  return `${local}${sign}${String(hours).padStart(2, '0')}:${String(minutes).padStart(2, '0')}`;
}
