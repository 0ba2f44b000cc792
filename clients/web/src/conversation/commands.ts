import { t } from '../i18n/index.ts';
import { go, link, type Live, send } from '../live.ts';
import { keptNotes, showsNotes } from '../notes/kept.ts';
import type { Scope } from '../notes/notes.ts';
import { pane, settings, side } from '../shell/panes.ts';
import { retryOf } from './retry.ts';
import { visibleLine } from './safe.ts';

/** What a message that begins with a slash does. */
export interface Command {
  name: string;
  text: string;
  /** Runs it. Gives what the user is to be told. Throws an Error if the server refuses. */
  run?(): Promise<string> | void;
  /** What was typed for it is not lost if it fails. */
  keeps?: boolean;
  /** What it is to be given. */
  choices?: readonly Command[];
  /** What it can do with a text. */
  take?(text: string): readonly Command[];
}

/** The commands that do something now. `attach` opens the chooser of files. */
export function commandsOf(here: Live, attach: () => void): Command[] {
  const { conversation, session } = here;
  const isOnline = link.value.state === 'online';
  const isIdle = ['idle', 'error'].includes(conversation.status.value);
  const again = retryOf(conversation.messages.value);
  const view = (name: 'files' | 'inspector'): Command => ({ name, text: t(`command.${name}`), run: () => void ((side.value = name), (pane.value = name)) });
  return [
    { name: 'new', text: t('sessions.new'), run: () => go() },
    ...(isOnline && !isIdle ? [{ name: 'stop', text: t('command.stop'), run: () => session.cancel().then(() => '') }] : []),
    ...(isOnline && isIdle && again ? [{ name: 'retry', text: t('command.retry'), run: () => send(again.text || t('chat.goon'), again.attachments) }] : []),
    ...(isOnline && conversation.messages.value.length ? [{ name: 'compact', text: t('command.compact'), run: () => compact(here) }] : []),
    ...(isOnline ? choosing(here) : []),
    { name: 'attach', text: t('composer.attach'), run: attach },
    view('files'),
    view('inspector'),
    { name: 'remember', text: t('command.remember'), take: remembering },
    { name: 'notes', text: t('notes.show'), run: () => void (showsNotes.value = true) },
    { name: 'settings', text: t('command.settings'), run: () => void (settings.value = true) },
  ];
}

/** Where a note can be kept. */
function remembering(text: string): readonly Command[] {
  const keep = (scope: Scope): Command => ({
    name: visibleLine(text.trim()),
    text: t(scope === 'user' ? 'notes.user' : 'notes.project'),
    keeps: true,
    run: () => keptNotes().add(scope, text).then(() => t('notes.kept')),
  });
  return text.trim() ? (['user', 'project'] as const).filter((scope) => keptNotes().places[scope]).map(keep) : [];
}

async function compact({ session }: Live): Promise<string> {
  const { outcome } = await session.compact();
  return t(outcome === 'nothing_to_compact' ? 'compact.short' : 'compact.begun');
}

/** Commands that set something to one of the values that it does not have. */
function choosing({ conversation, session }: Live): Command[] {
  const info = conversation.info.value;
  if (!info) return [];
  const settled = info.settings as Record<string, unknown>;
  const set = (name: string, text: string, values: readonly (readonly [string, string])[], now: unknown, run: (value: string) => Promise<unknown>): Command[] => {
    const choices = values
      .filter(([value]) => value !== now)
      .map(([value, detail]) => ({ name: visibleLine(value), text: detail, run: () => run(value).then(() => t('command.set', { name: text, value: visibleLine(value) })) }));
    return choices.length ? [{ name, text: typeof now === 'string' ? t('command.set', { name: text, value: visibleLine(now) }) : text, choices }] : [];
  };
  const levels = info.models.find((model) => model.name === info.model)?.thinking ?? [];
  return [
    ...set('model', t('model'), info.models.map((one) => [one.name, ''] as const), info.model, (model) => session.configure({ model })),
    ...set('agent', t('agent'), info.agents.map((one) => [one.name, visibleLine(one.description)] as const), conversation.agent.value, (agent) => session.switchAgent(agent)),
    ...set('mode', t('mode'), MODES.map((one) => [one, t(`mode.${one}`)] as const), info.mode, (mode) => session.configure({ mode: mode as (typeof MODES)[number] })),
    ...set('thinking', t('thinking'), levels.map((one) => [one, ''] as const), settled['thinking'], (thinking) => session.configure({ thinking: thinking as (typeof levels)[number] })),
  ];
}

/** What the agent may do, the least first. */
export const MODES = ['ask', 'plan', 'manual', 'code', 'autonomous'] as const;

/** The commands that may be meant by what stands behind the slash; a name and a blank stand for its choices. */
export function commandsFor(commands: readonly Command[], text: string): { before: string; commands: readonly Command[] } {
  const [, name, value] = /^(\S+) (.*)$/.exec(text) ?? [];
  const chosen = commands.find((command) => command.name === name && (command.choices ?? command.take));
  if (!chosen) return { before: '', commands: commands.filter((command) => command.name.startsWith(text.toLowerCase())) };
  if (chosen.take) return { before: `${name} `, commands: chosen.take(value!) };
  return { before: `${chosen.name} `, commands: chosen.choices!.filter((choice) => choice.name.toLowerCase().includes(value!.toLowerCase())) };
}
