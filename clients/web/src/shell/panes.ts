import { signal } from '@preact/signals';
import { shown } from '../workspace/shown.ts';
import { stored } from './stored.ts';

export type Side = 'files' | 'inspector' | '';
export type Pane = 'chat' | 'files' | 'inspector' | 'sessions';

/** What is beside the conversation, where there is room. */
export const side = stored<Side>('side', '', (value) => (value === 'files' || value === 'inspector' ? value : ''));
/** Which pane is shown where there is not. */
export const pane = signal<Pane>('chat');

/** Whether the settings are open. */
export const settings = signal(false);

/** Show the open folder, or how to open one. */
export function showFiles(): void {
  side.value = 'files';
  pane.value = 'files';
}

/** Show a file of the open folder in the editor. */
export function showFile(path: string): void {
  shown.value = { path };
  showFiles();
}
