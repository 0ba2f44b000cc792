import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Folder } from '../src/workspace/folder.ts';
import { gitTool } from '../src/workspace/git/tools.ts';
import { Disk } from './disk.ts';

const hasGit = (() => {
  try {
    return !!execFileSync('git', ['--version']);
  } catch {
    return false;
  }
})();

let top: string;

const ENVIRONMENT = { PATH: process.env['PATH'], HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1', LC_ALL: 'C' };

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: top, env: ENVIRONMENT, encoding: 'utf8' });
}

function write(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(join(top, path)), { recursive: true });
  writeFileSync(join(top, path), content);
}

/** The page's tool. */
function page(tool: string, args: Record<string, unknown> = {}): Promise<any> {
  return gitTool(tool, new Folder(new Disk(top) as never, 'test'), args);
}

function begin(): void {
  git('init', '--quiet', '--initial-branch=main');
  git('config', 'user.name', 'Ann');
  git('config', 'user.email', 'ann@example.com');
}

/** What git itself says: path, status, staged. */
function gitsStatus(): { path: string; status: string; staged: boolean }[] {
  const states: Record<string, string> = { M: 'modified', A: 'added', D: 'deleted' };
  return git('status', '--porcelain', '--untracked-files=all', '--no-renames', '-z')
    .split('\0')
    .filter(Boolean)
    .flatMap((line) => {
      const [x, y, path] = [line[0]!, line[1]!, line.slice(3)];
      if (x === '?') return [{ path, status: 'untracked', staged: false }];
      return [
        ...(x === ' ' ? [] : [{ path, status: states[x]!, staged: true }]),
        ...(y === ' ' ? [] : [{ path, status: states[y]!, staged: false }]),
      ];
    })
    .sort((one, other) => (one.path === other.path ? 0 : one.path < other.path ? -1 : 1));
}

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'codelab-page-git-'));
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

describe.skipIf(!hasGit)('git in the page', () => {
  test('says and does what git says and does, on the same repository', async () => {
    begin();
    expect(await page('git.log')).toEqual({ commits: [] });
    write('kept.txt', 'kept\n');
    write('a/changed.txt', Array.from({ length: 40 }, (_, n) => `line ${n}\n`).join(''));
    write('a/gone.txt', 'gone\n');
    write('run.sh', '#!/bin/sh\n');
    execFileSync('chmod', ['+x', join(top, 'run.sh')]);
    write('.gitignore', '*.log\nbuild/\n');
    symlinkSync('kept.txt', join(top, 'link'));
    git('add', '.');
    git('commit', '--quiet', '-m', 'First\n\nWith a body.');
    write('a/changed.txt', Array.from({ length: 40 }, (_, n) => `line ${n === 3 || n === 30 ? 'new' : n}\n`).join(''));
    unlinkSync(join(top, 'a/gone.txt'));
    write('run.sh', '#!/bin/sh\necho\n');
    write('é new.txt', 'no newline');
    write('x.log', 'ignored');
    write('build/out', 'ignored');
    write('staged.bin', new Uint8Array([0, 1, 2]));
    git('add', 'staged.bin', 'a/changed.txt');
    write('a/changed.txt', 'shorter\n');

    const status = await page('git.status', { path: '.' });
    expect(status).toEqual({ branch: 'main', files: gitsStatus() });
    expect((await page('git.status', { path: 'a' })).files).toEqual(gitsStatus().filter(({ path }) => path.startsWith('a/')));

    // The diffs are git's: it takes them back, to the byte.
    for (const staged of [false, true]) {
      const { diff } = await page('git.diff', { path: '.', staged });
      const options = staged ? ['--cached'] : [];
      expect(diff.match(/^diff --git .*$/gm)).toEqual(git('diff', '--no-renames', ...options).match(/^diff --git .*$/gm));
      if (staged) continue;
      writeFileSync(join(top, 'build/patch'), diff);
      git('apply', '--reverse', 'build/patch');
      expect(gitsStatus().filter((one) => !one.staged && one.status !== 'untracked')).toEqual([]);
      git('apply', 'build/patch');
    }

    // Only the named files: what else is staged stays staged.
    const made = await page('git.commit', { message: 'Second', files: ['a', 'run.sh', 'é new.txt'] });
    expect(git('rev-parse', 'HEAD').trim()).toBe(made.hash);
    git('fsck', '--strict');
    expect(gitsStatus()).toEqual([{ path: 'staged.bin', status: 'added', staged: true }]);
    expect(git('ls-tree', '-r', 'HEAD').replaceAll('\t', ' ')).toContain('100755');
    expect(git('ls-tree', 'HEAD', 'link')).toContain('120000');
    const third = await page('git.commit', { message: 'Third' });
    git('fsck', '--strict');
    expect(gitsStatus()).toEqual([]);
    await expect(page('git.commit', { message: 'Fourth' })).rejects.toMatchObject({ code: 'GIT_ERROR', message: 'There is nothing to commit' });
    await expect(page('git.commit', { message: 'x', files: ['x.log'] })).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' });

    const { commits } = await page('git.log', { limit: 10 });
    expect(commits.map((one: { hash: string }) => one.hash)).toEqual(git('log', '--format=%H').trim().split('\n'));
    expect(commits[2]).toMatchObject({ author: 'Ann', message: 'First\n\nWith a body.', date: git('log', '-1', '--format=%aI', commits[2].hash).trim().replace('Z', '+00:00') });
    expect(commits[0].hash).toBe(third.hash);
    expect((await page('git.log', { path: 'kept.txt' })).commits).toHaveLength(1);

    await page('git.branch', { action: 'create', name: 'feature/x' });
    expect(await page('git.branch', { action: 'list' })).toEqual({ current: 'main', branches: ['feature/x', 'main'] });
    expect(git('branch', '--format=%(refname:short)').trim().split('\n')).toEqual(['feature/x', 'main']);
    await page('git.branch', { action: 'delete', name: 'feature/x' });
    expect(git('branch', '--format=%(refname:short)').trim()).toBe('main');
  });

  test('a packed repository and a deleted directory', async () => {
    begin();
    for (let n = 0; n < 30; n++) write(`d/e/${n}.txt`, `${n}\n`.repeat(n + 1));
    write('f.txt', 'f\n');
    git('add', '.');
    git('commit', '--quiet', '-m', 'one');
    git('gc', '--quiet');
    rmSync(join(top, 'd'), { recursive: true });
    await page('git.commit', { message: 'Remove d', files: ['.'] });
    git('fsck', '--strict');
    expect(git('ls-tree', '-r', '--name-only', 'HEAD').trim()).toBe('f.txt');
    expect(gitsStatus()).toEqual([]);
  });

  test('a hostile .gitignore cannot keep the page busy', async () => {
    begin();
    write('.gitignore', `${'*a'.repeat(60)}b\n*.log\n`);
    write('a'.repeat(240), '');
    write('x.log', '');
    const { files } = await page('git.status');
    expect(files.map((one: { path: string }) => one.path)).toEqual(['.gitignore', 'a'.repeat(240)]);
  });

  test('what it cannot do as git would is refused, and nothing is changed', async () => {
    await expect(page('git.status')).rejects.toMatchObject({ code: 'GIT_NOT_INITIALIZED' });
    write('.git', 'gitdir: /somewhere/else\n');
    await expect(page('git.status')).rejects.toMatchObject({ code: 'GIT_ERROR' });
    unlinkSync(join(top, '.git'));
    begin();
    write('f.txt', 'f\n');
    git('add', '.');
    const refused = async (why: string) => {
      await expect(page('git.commit', { message: 'x' })).rejects.toMatchObject({ code: 'GIT_ERROR', message: expect.stringContaining(why) });
      expect(gitsStatus().filter((one) => one.status !== 'untracked')).toEqual([{ path: 'f.txt', status: 'added', staged: true }]);
    };
    write('.git/hooks/pre-commit', '#!/bin/sh\nexit 1\n');
    await refused('hook pre-commit');
    unlinkSync(join(top, '.git/hooks/pre-commit'));
    git('config', 'commit.gpgSign', 'true');
    await refused('commit.gpgsign');
    git('config', '--unset', 'commit.gpgSign');
    for (const path of ['.gitattributes', 'models/large/.gitattributes', '.git/info/attributes']) {
      write(path, '*.bin filter=lfs\n');
      await refused(`${path} changes contents`);
      unlinkSync(join(top, path));
    }
    write('.git/MERGE_HEAD', '0'.repeat(40));
    await refused('MERGE_HEAD');
    unlinkSync(join(top, '.git/MERGE_HEAD'));
    write('.git/HEAD', 'ref: refs/heads/../../config\n');
    await expect(page('git.commit', { message: 'x' })).rejects.toMatchObject({ code: 'GIT_ERROR' });
    write('.git/HEAD', 'ref: HEAD\n');
    await expect(page('git.log')).rejects.toMatchObject({ code: 'GIT_ERROR' });
    write('.git/HEAD', 'ref: refs/heads/main\n');
    git('config', 'index.sparse', 'true');
    await refused('index.sparse');
    git('config', '--unset', 'index.sparse');
    git('config', '--unset', 'user.email');
    await refused('who commits');
    for (const name of ['../x', '-f', 'a..b', 'HEAD', 'a b', 'x.lock', '']) {
      await expect(page('git.branch', { action: 'create', name })).rejects.toMatchObject({ code: 'INVALID_ARGUMENTS' });
    }
    await expect(page('git.branch', { action: 'switch', name: 'x' })).rejects.toMatchObject({ code: 'GIT_ERROR' });
    await expect(page('git.diff', { path: '../x' })).rejects.toMatchObject({ code: 'PATH_OUTSIDE_WORKSPACE' });
  });
});
