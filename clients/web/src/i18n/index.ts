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

/**
 * What an error's code or kind means, in the page's language, and what its own words, which are English, say beyond that.
 * The meaning is empty for a code that the page does not know.
 */
export function causeOf(code: string, words: string): { title: string; words: string } {
  const key = `error.${code}`;
  if (!Object.hasOwn(en, key)) return { title: '', words };
  const said = en[key as Key];
  const isSaid = words.toLowerCase().startsWith(said.toLowerCase()) && !/^\w/.test(words.slice(said.length));
  const title = t(key as Key);
  if (!isSaid) return { title, words };
  const rest = words.slice(said.length).replace(/^[:.]?\s*/, '');
  return { title, words: rest.charAt(0).toUpperCase() + rest.slice(1) };
}

/** Why something failed, in one text: see `causeOf`. */
export function reasonOf(error: unknown): string {
  const { code, kind, message } = Object(error) as { code?: unknown; kind?: unknown; message?: unknown };
  const known = [code, kind].find((one) => typeof one === 'string' && Object.hasOwn(en, `error.${one}`));
  const { title, words } = causeOf(String(known ?? ''), String(message ?? error));
  return [title, words].filter(Boolean).join('. ');
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
