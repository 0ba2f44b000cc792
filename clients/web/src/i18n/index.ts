import { signal } from '@preact/signals';
import { stored } from '../shell/stored.ts';
import { en, type Key } from './en.ts';
import { ru } from './ru.ts';

export type Language = 'en' | 'ru';
export type { Key };
type CountedKey = Key extends infer One ? (One extends `${infer Name}.few` ? Name : never) : never;

const TEXTS: Record<Language, Record<Key, string>> = { en, ru };

export const language = stored<Language>('language', navigator.language.startsWith('ru') ? 'ru' : 'en', (value) =>
  value === 'ru' ? 'ru' : 'en',
);
language.subscribe((value) => (document.documentElement.lang = value));

/** The text of `key` in the page's language. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return TEXTS[language.value][key].replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** What an error code of the protocol means, in the page's language; empty for one whose message has to do. */
export function errorTitle(code: string): string {
  const key = `error.${code}`;
  return Object.hasOwn(en, key) ? t(key as Key) : '';
}

/** Why something failed: what its code or kind means, in the page's language, and its own words. */
export function reasonOf(error: unknown): string {
  const words = error instanceof Error ? error.message : String(error);
  const { code, kind } = Object(error) as { code?: unknown; kind?: unknown };
  const title = errorTitle(`${code}`) || errorTitle(`${kind}`);
  return title ? `${title}. ${words}` : words;
}

/** The text of `key` for a number of things, which the language may decline: `key.one`, `key.few`, `key.many` and `key.other`. */
export function counted(key: CountedKey, number: number, values: Record<string, string | number> = {}): string {
  const form = new Intl.PluralRules(language.value).select(number);
  const known = form === 'one' || form === 'few' || form === 'many' ? form : 'other';
  return t(`${key}.${known}` as Key, { n: n(number), ...values });
}

/** A number as people of the page's language write it. */
export function n(value: number): string {
  return value.toLocaleString(language.value);
}

export function bytes(value: number): string {
  const units: ('B' | 'KB' | 'MB')[] = ['B', 'KB', 'MB'];
  let size = value;
  while (size >= 1000 && units.length > 1) {
    size /= 1000;
    units.shift();
  }
  return t(`unit.${units[0]!}`, { n: size.toLocaleString(language.value, { maximumFractionDigits: size < 10 && units[0] !== 'B' ? 1 : 0 }) });
}

/** Changes every minute, for what shows how long ago something was. */
export const minute = signal(Date.now());
setInterval(() => (minute.value = Date.now()), 60_000);

export function ago(iso: string): string {
  const seconds = (Date.parse(iso) - Math.max(minute.value, Date.now())) / 1000;
  const format = new Intl.RelativeTimeFormat(language.value, { numeric: 'auto', style: 'short' });
  for (const [unit, size] of [['day', 86_400], ['hour', 3600], ['minute', 60]] as const) {
    if (-seconds >= size) return format.format(Math.round(seconds / size), unit);
  }
  return format.format(0, 'minute');
}
