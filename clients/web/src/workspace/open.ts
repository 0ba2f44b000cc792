import { signal } from '@preact/signals';
import { visibleLine } from '../conversation/safe.ts';
import { MOST_BYTES } from './files.ts';
import { Folder } from './folder.ts';
import { SAMPLE } from './sample.ts';

/** Where the folder comes from, kept so that a reload opens it again. */
type Origin = { kind: 'own'; directory: string; name: string } | { kind: 'disk'; handle: FileSystemDirectoryHandle; name: string };

export const folder = signal<Folder | undefined>(undefined);
/** A folder of the disk that the browser gives again only on a click. */
export const waiting = signal<string | undefined>(undefined);
/** Counts changes by the agent or the user, so that the tree and the editor look again. */
export const version = signal(0);
/** The paths of the agent's last change. */
export const lastChanged = signal<readonly string[]>([]);

export const canOpenDisk = 'showDirectoryPicker' in window;
/** Without a secure context (https, or this machine) a browser gives no storage for files. */
export const canStore = 'storage' in navigator && 'getDirectory' in navigator.storage;

/** Files that are looked at for a mention. */
const MOST_PATHS = 20_000;
const ZIP_BYTES = 100_000_000;
const ZIP_FILES = 5_000;

let reopening: Promise<void> = Promise.resolve();

/** Open what was open before; a newcomer gets the sample project. */
export function reopen(): void {
  reopening = reopenLast().catch(() => {});
}

/** The open folder. Calls may come before the browser has opened the one of the last time. */
export async function openedFolder(): Promise<Folder | undefined> {
  await reopening;
  return folder.value;
}

async function reopenLast(): Promise<void> {
  if (!canStore) return;
  const origin = await remembered();
  if (!origin) return openSample();
  if (origin.kind === 'own') return show(await ownDirectory(origin.directory), origin);
  const asked = origin.handle as unknown as { queryPermission?(what: object): Promise<string> };
  if ((await asked.queryPermission?.({ mode: 'readwrite' })) === 'granted') return show(origin.handle, origin);
  waiting.value = origin.name;
}

export async function openSample(): Promise<void> {
  const directory = await ownDirectory('sample');
  const made = new Folder(directory, 'sample');
  for (const [path, content] of Object.entries(SAMPLE)) {
    // A page that is left while it writes a file leaves it empty; so one that somebody has emptied is written again, too.
    const isWritten = (await made.has(path)) && (!content || (await made.stat(path)).size > 0);
    if (!isWritten) await made.write(path, content);
  }
  await show(directory, { kind: 'own', directory: 'sample', name: 'sample' });
}

/** Unpack a zip into the browser's storage. */
export async function openZip(file: File): Promise<void> {
  if (file.size > ZIP_BYTES) throw new Error(`The zip has more than ${ZIP_BYTES / 1e6} MB`);
  const { unzip } = await import('fflate');
  let [count, total] = [0, 0];
  const unpacked = await new Promise<Record<string, Uint8Array>>((resolve, reject) => {
    file.arrayBuffer().then(
      (body) =>
        unzip(
          new Uint8Array(body),
          {
            // Sizes are the zip's own claims; what it really holds is counted below.
            filter: ({ originalSize }) => originalSize <= MOST_BYTES && ++count <= ZIP_FILES && (total += originalSize) <= ZIP_BYTES,
          },
          (error, files) => (error ? reject(error) : resolve(files)),
        ),
      reject,
    );
  });
  const name = file.name.replace(/\.zip$/i, '') || 'zip';
  const directory = `zip-${Date.now()}`;
  const root = await ownDirectory(directory);
  const made = new Folder(root, name);
  const paths = Object.keys(unpacked);
  const common = commonDirectory(paths);
  for (const path of paths) {
    if (path.endsWith('/') || unpacked[path]!.length > MOST_BYTES) continue;
    await made.write(path.slice(common.length), new Uint8Array(unpacked[path]!));
  }
  await show(root, { kind: 'own', directory, name });
}

export async function openDisk(): Promise<void> {
  const origin = waiting.value === undefined ? undefined : await remembered();
  let handle: FileSystemDirectoryHandle;
  if (origin?.kind === 'disk') {
    handle = origin.handle;
    const asked = handle as unknown as { requestPermission(what: object): Promise<string> };
    if ((await asked.requestPermission({ mode: 'readwrite' })) !== 'granted') return;
  } else {
    const picker = window as unknown as { showDirectoryPicker(what: object): Promise<FileSystemDirectoryHandle> };
    handle = await picker.showDirectoryPicker({ mode: 'readwrite', id: 'codelab' });
  }
  await show(handle, { kind: 'disk', handle, name: handle.name });
}

export async function close(): Promise<void> {
  folder.value = undefined;
  waiting.value = undefined;
  await remember(undefined);
}

/** All files as a zip, and the repository. */
export async function zipped(from: Folder): Promise<Blob> {
  const { zip } = await import('fflate');
  const files: Record<string, Uint8Array> = {};
  const take = async (path: string, all = false) => {
    for await (const item of from.walk(path, all)) if (item.type === 'file') files[item.path] = await from.bytes(item.path);
  };
  await take('.');
  const entries = await from.list('.');
  if (entries.some((item) => item.path === '.git' && item.type === 'directory')) await take('.git', true); // With the agent's commits.
  return new Promise((resolve, reject) =>
    zip(files, (error, data) => (error ? reject(error) : resolve(new Blob([new Uint8Array(data)], { type: 'application/zip' })))),
  );
}

/** The files of a folder whose names show all that is in them. */
export async function pathsOf(from: Folder): Promise<string[]> {
  const found: string[] = [];
  for await (const { path, type } of from.walk('.')) {
    if (type === 'file' && visibleLine(path) === path) found.push(path);
    if (found.length === MOST_PATHS) break;
  }
  return found;
}

async function show(handle: FileSystemDirectoryHandle, origin: Origin): Promise<void> {
  waiting.value = undefined;
  folder.value = new Folder(handle, origin.name);
  version.value++;
  await remember(origin);
}

async function ownDirectory(name: string): Promise<FileSystemDirectoryHandle> {
  const storage = await navigator.storage.getDirectory();
  const workspaces = await storage.getDirectoryHandle('workspaces', { create: true });
  return workspaces.getDirectoryHandle(name, { create: true });
}

function commonDirectory(paths: readonly string[]): string {
  const first = paths[0]?.match(/^[^/]+\//)?.[0] ?? '';
  return paths.every((path) => path.startsWith(first)) ? first : '';
}

// Handles survive only in IndexedDB.

function database(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open('codelab-page', 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore('workspace');
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}

async function remembered(): Promise<Origin | undefined> {
  const store = (await database()).transaction('workspace').objectStore('workspace');
  return new Promise((resolve) => {
    const reading = store.get('origin');
    reading.onsuccess = () => resolve(reading.result);
    reading.onerror = () => resolve(undefined);
  });
}

async function remember(origin: Origin | undefined): Promise<void> {
  const store = (await database()).transaction('workspace', 'readwrite').objectStore('workspace');
  if (origin) store.put(origin, 'origin');
  else store.delete('origin');
}
