import { signal, useSignal, useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { ToolError } from '@codelab/client';
import { visible } from '../conversation/safe.ts';
import { counted, reasonOf, t } from '../i18n/index.ts';
import { executes } from '../live.ts';
import { Icon } from '../shell/icon.tsx';
import { Problem } from '../shell/problem.tsx';
import type { Editor } from './editor.ts';
import type { Item } from './files.ts';
import type { Folder } from './folder.ts';
import { canOpenDisk, canStore, close, folder, lastChanged, openDisk, openSample, openZip, version, waiting, zipped } from './open.ts';
import { type Match, search } from './search.ts';
import { shown } from './shown.ts';

const problem = signal('');

export function FilesView() {
  const open = folder.value;
  return (
    <div class="files">
      {open ? <OpenFolder folder={open} /> : <NoFolder />}
      <p class="problem" role="alert">
        {problem.value}
      </p>
    </div>
  );
}

/** Whether a folder is being opened: a zip takes its time. */
const isOpening = signal(false);

/** Open or close a folder, and say what goes wrong. */
async function attempt(action: () => Promise<unknown>, done?: () => void): Promise<void> {
  problem.value = '';
  isOpening.value = true;
  try {
    await action();
    shown.value = undefined;
    done?.();
  } catch (error) {
    if (!(error instanceof DOMException && error.name === 'AbortError')) problem.value = reasonOf(error);
  } finally {
    isOpening.value = false;
  }
}

function NoFolder() {
  return (
    <section class="welcome">
      <h2>{t('files.none')}</h2>
      <p>{t('files.none.text')}</p>
      <Openers />
    </section>
  );
}

function Openers({ onOpen }: { onOpen?: () => void }) {
  const zip = useRef<HTMLInputElement>(null);
  return (
    <div class="buttons" aria-busy={isOpening.value}>
      {isOpening.value && <small role="status">{t('files.opening')}</small>}
      {waiting.value !== undefined && (
        <button type="button" class="primary" onClick={() => attempt(openDisk, onOpen)}>
          {t('files.allow', { name: waiting.value })}
        </button>
      )}
      <button type="button" disabled={!canStore} onClick={() => attempt(openSample, onOpen)}>
        {t('files.sample')}
      </button>
      <button type="button" disabled={!canStore} onClick={() => zip.current!.click()}>
        {t('files.zip')}
      </button>
      <input
        ref={zip}
        type="file"
        accept=".zip,application/zip"
        hidden
        onChange={(event) => {
          const [file] = event.currentTarget.files ?? [];
          event.currentTarget.value = '';
          if (file) void attempt(() => openZip(file), onOpen);
        }}
      />
      {canOpenDisk ? (
        <button type="button" onClick={() => attempt(openDisk, onOpen)}>
          {t('files.folder')}
        </button>
      ) : (
        <small>{t('files.nofolder')}</small>
      )}
    </div>
  );
}

function OpenFolder({ folder: open }: { folder: Folder }) {
  const menu = useSignal(false);
  return (
    <>
      <header class="bar">
        <Icon name="folder" />
        <strong>{open.name}</strong>
        <Finder folder={open} />
        <button type="button" class="icon" aria-expanded={menu.value} aria-label={t('nav.settings')} onClick={() => (menu.value = !menu.value)}>
          <Icon name="more" />
        </button>
      </header>
      {menu.value && (
        <div class="sheet">
          <Openers onOpen={() => (menu.value = false)} />
          <div class="buttons">
            <button
              type="button"
              onClick={async () => {
                const url = URL.createObjectURL(await zipped(open));
                const anchor = Object.assign(document.createElement('a'), { href: url, download: `${open.name}.zip` });
                anchor.click();
                setTimeout(() => URL.revokeObjectURL(url), 10_000);
              }}
            >
              {t('files.download')}
            </button>
            <button type="button" onClick={() => attempt(close)}>
              {t('files.close')}
            </button>
          </div>
          <fieldset>
            <legend>{t('files.executor')}</legend>
            {([true, false] as const).map((here) => (
              <label key={String(here)}>
                <input type="radio" name="executor" checked={executes.value === here} onChange={() => (executes.value = here)} />
                {t(here ? 'files.executor.here' : 'files.executor.elsewhere')}
              </label>
            ))}
            <small>{t('files.commands')}</small>
          </fieldset>
        </div>
      )}
      <div class="split">
        <nav class="tree" aria-label={t('files.tree', { name: open.name })}>
          <Directory folder={open} path="." depth={0} />
        </nav>
        <FileEditor folder={open} />
      </div>
    </>
  );
}

function Directory({ folder: open, path, depth }: { folder: Folder; path: string; depth: number }) {
  const items = useSignal<readonly Item[]>([]);
  const opened = useSignal<ReadonlySet<string>>(new Set());
  const problem = useSignal('');
  useSignalEffect(() => {
    void version.value;
    open.list(path).then(
      (found) => {
        items.value = found;
        problem.value = '';
      },
      (error: unknown) => {
        items.value = [];
        problem.value = reasonOf(error);
      },
    );
  });
  if (problem.value) return <Problem text={problem.value} retry={() => version.value++} />;
  return (
    <ul>
      {items.value.map((item) => {
        const name = visible(item.path.split('/').at(-1)!);
        const isOpen = opened.value.has(item.path);
        return (
          <li key={item.path}>
            <button
              type="button"
              class={`node depth-${Math.min(depth, 8)} ${shown.value?.path === item.path ? 'current' : ''} ${lastChanged.value.includes(item.path) ? 'changed' : ''}`}
              aria-expanded={item.type === 'directory' ? isOpen : undefined}
              aria-current={shown.value?.path === item.path ? 'true' : undefined}
              onClick={() => {
                if (item.type === 'file') {
                  shown.value = { path: item.path };
                  return;
                }
                const next = new Set(opened.value);
                if (!next.delete(item.path)) next.add(item.path);
                opened.value = next;
              }}
            >
              <Icon name={item.type === 'file' ? 'file' : isOpen ? 'unfolded' : 'right'} />
              <bdi>{name}</bdi>
            </button>
            {item.type === 'directory' && isOpen && <Directory folder={open} path={item.path} depth={depth + 1} />}
          </li>
        );
      })}
    </ul>
  );
}

function FileEditor({ folder: open }: { folder: Folder }) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | undefined>(undefined);
  const saved = useRef('');
  const unsaved = useSignal(false);
  const trouble = useSignal('');
  const tries = useSignal(0);
  const at = shown.value;
  const path = at?.path;

  const save = async () => {
    if (!editor.current || !path) return;
    const text = editor.current.text();
    try {
      await open.write(path, text);
      saved.current = text;
      unsaved.value = false;
      version.value++;
    } catch (error) {
      trouble.value = reasonOf(error);
    }
  };

  useEffect(() => {
    if (!path) return;
    let gone = false;
    trouble.value = '';
    unsaved.value = false;
    void (async () => {
      try {
        const [{ fileEditor }, { content }] = await Promise.all([import('./editor.ts'), open.read(path)]);
        if (gone) return;
        saved.current = content;
        editor.current = fileEditor(host.current!, path, content, t('files.editor', { path }), {
          changed: () => (unsaved.value = editor.current?.text() !== saved.current),
          saved: () => void save(),
        });
        if (at?.line) editor.current.goTo(at.line);
      } catch (error) {
        if (!gone) trouble.value = error instanceof ToolError && error.code === 'ENCODING_ERROR' ? t('files.binary') : reasonOf(error);
      }
    })();
    return () => {
      gone = true;
      editor.current?.end();
      editor.current = undefined;
    };
  }, [open, path, tries.value]);

  useEffect(() => {
    if (at?.line) editor.current?.goTo(at.line);
  }, [at]);

  // The agent has changed files: show the new text, unless the user has changed this one too.
  useSignalEffect(() => {
    void version.value;
    if (!path || unsaved.peek()) return;
    open.read(path).then(
      ({ content }) => {
        if (!editor.current || unsaved.peek()) return;
        saved.current = content;
        editor.current.show(content);
      },
      () => {},
    );
  });

  return (
    <section class="editor" aria-label={path ? t('files.editor', { path: visible(path) }) : t('nav.files')}>
      {path && (
        <header>
          <bdi>{visible(path)}</bdi>
          {unsaved.value && <span class="badge">{t('files.unsaved')}</span>}
          <button type="button" class="quiet" disabled={!unsaved.value} onClick={save}>
            {t('save')}
          </button>
          <button type="button" class="icon" aria-label={t('close')} onClick={() => (shown.value = undefined)}>
            <Icon name="close" />
          </button>
        </header>
      )}
      <Problem text={trouble.value} retry={() => tries.value++} />
      <div class="host" ref={host} key={path ?? ''} hidden={!path} />
    </section>
  );
}

function Finder({ folder: open }: { folder: Folder }) {
  const query = useSignal('');
  const found = useSignal<{ matches: Match[]; truncated: boolean } | undefined>(undefined);
  useSignalEffect(() => {
    const wanted = query.value;
    void version.value;
    if (wanted.length < 2) {
      found.value = undefined;
      return;
    }
    const aborting = new AbortController();
    const timer = setTimeout(() => {
      search(open, { query: wanted }, aborting.signal).then(
        (result) => (found.value = result),
        () => {},
      );
    }, 150);
    return () => {
      clearTimeout(timer);
      aborting.abort();
    };
  });
  return (
    <div class="finder">
      <Icon name="search" />
      <input
        type="search"
        aria-label={t('files.search')}
        placeholder={t('files.search')}
        value={query.value}
        onInput={(event) => (query.value = event.currentTarget.value)}
        onKeyDown={(event) => event.key === 'Escape' && (query.value = '')}
      />
      {found.value && (
        <div class="found" role="region" aria-label={t('files.search')}>
          <p role="status">
            {found.value.matches.length ? counted('files.found', found.value.matches.length) : t('files.nothing')}
            {found.value.truncated && ` ${t('files.truncated')}`}
          </p>
          <ul>
            {found.value.matches.map((match, index) => (
              <li key={index}>
                <button
                  type="button"
                  onClick={() => {
                    shown.value = { path: match.path, line: match.line };
                    query.value = '';
                  }}
                >
                  <b>
                    <bdi>{visible(match.path)}</bdi>:{match.line}
                  </b>
                  <code dir="ltr">{visible(match.text.trim())}</code>
                </button>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
