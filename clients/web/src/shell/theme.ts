import { stored } from './stored.ts';

export type Theme = 'system' | 'light' | 'dark';

export const theme = stored<Theme>('theme', 'system', (value) => (value === 'light' || value === 'dark' ? value : 'system'));

theme.subscribe((value) => {
  if (value === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = value;
});
