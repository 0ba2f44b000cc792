import { useSignal } from '@preact/signals';
import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { causeOf, counted, n, reasonOf, t, type Key } from '../i18n/index.ts';
import { type Live, link, loadEarlier, send, sendInstead } from '../live.ts';
import { CopyButton } from '../shell/copy.tsx';
import { Icon } from '../shell/icon.tsx';
import { showFiles } from '../shell/panes.ts';
import { Problem } from '../shell/problem.tsx';
import { folder } from '../workspace/open.ts';
import { actOf } from './act.ts';
import { ApproveTogether } from './approve_together.tsx';
import { CallCard } from './call.tsx';
import { Composer, edit } from './composer.tsx';
import { DraftCard } from './draft.tsx';
import { type Entry, retryOf } from './entries.ts';
import { Long, Markdown } from './markdown.tsx';
import { Plan } from './plan.tsx';
import { QueueView } from './queue.tsx';
import { visible, visibleLine } from './safe.ts';

/** Seconds after which it is shown how long something takes. */
const SHOWN_SECONDS = 2;
/** The name of the demonstration model. */
const DEMONSTRATION = 'demonstration';
/** Pixels from the end within which the view follows what is written. */
const NEAR = 80;

export function ConversationView({ live }: { live: Live }) {
  const { conversation } = live;
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const following = useSignal(true);
  /** Where the view was last. */
  const top = useRef(0);

  useLayoutEffect(() => {
    const element = scroller.current!;
    following.value = true;
    top.current = 0;
    // The first screen is read from its top.
    const toEnd = () => following.value && conversation.entries.peek().length && (element.scrollTop = element.scrollHeight);
    const watch = new ResizeObserver(toEnd);
    watch.observe(content.current!);
    watch.observe(element);
    return () => watch.disconnect();
  }, [live]);
  const scrolled = () => {
    const element = scroller.current!;
    // What is written between a scroll and its event is no wish of the user's: only a way up is one.
    if (element.scrollHeight - element.scrollTop - element.clientHeight < NEAR) following.value = true;
    else if (element.scrollTop < top.current) following.value = false;
    top.current = element.scrollTop;
  };
  const entries = conversation.entries.value;
  return (
    <div class="conversation">
      <div class="scroller" ref={scroller} onScroll={scrolled} tabIndex={0} role="region" aria-label={t('chat.label')}>
        <div class="column" ref={content}>
          {live.earlier && <Earlier live={live} />}
          {entries.length === 0 && <Welcome model={conversation.info.value?.model} />}
          {entries.map((entry) => (
            <EntryView key={entry.key} entry={entry} />
          ))}
          <ApproveTogether />
          <Again live={live} />
          <Retry live={live} />
        </div>
      </div>
      <div class="dock">
        {!following.value && (
          <button
            type="button"
            class="to-end"
            aria-label={t('chat.down')}
            onClick={() => {
              following.value = true;
              scroller.current!.scrollTop = scroller.current!.scrollHeight;
            }}
          >
            <Icon name="down" />
          </button>
        )}
        <Plan items={conversation.plan.value} />
        <QueueView live={live} />
        <StatusLine live={live} />
        <Composer live={live} />
      </div>
    </div>
  );
}

function Earlier({ live }: { live: Live }) {
  const problem = useSignal('');
  const load = () => {
    problem.value = '';
    loadEarlier(live).catch((error: unknown) => (problem.value = reasonOf(error)));
  };
  return (
    <>
      <Problem text={problem.value} />
      <button type="button" class="quiet" onClick={load}>
        {t('chat.earlier')}
      </button>
    </>
  );
}

/** A button that has the last message answered anew. */
function Again({ live }: { live: Live }) {
  const problem = useSignal('');
  const { entries, status } = live.conversation;
  const last = entries.value.findLast((entry) => entry.kind === 'user');
  const isOver = entries.value.at(-1)?.kind === 'end' && status.value === 'idle' && !retryOf(entries.value);
  if (!isOver || last?.kind !== 'user' || !last.isWhole || link.value.state !== 'online') return null;
  const again = () =>
    void sendInstead(last.key, last.text, last.attached).catch((error: unknown) => (problem.value = reasonOf(error)));
  return (
    <div class="again">
      <button type="button" class="quiet" onClick={again}>
        {t('chat.again')}
      </button>
      <p class="problem" role="alert">
        {problem.value}
      </p>
    </div>
  );
}

/** A button behind a turn in which the model failed, or behind a message that was refused for now: then it says for how long. */
function Retry({ live }: { live: Live }) {
  const { conversation } = live;
  const now = useSignal(Date.now());
  const again = retryOf(conversation.entries.value);
  const seconds = Math.max(0, Math.ceil(((again?.at ?? 0) - now.value) / 1000));
  useEffect(() => {
    now.value = Date.now();
    const timer = again?.at === undefined ? undefined : setInterval(() => (now.value = Date.now()), 500);
    return () => clearInterval(timer);
  }, [again?.at]);
  const isIdle = conversation.status.value === 'idle' || conversation.status.value === 'error';
  if (!again || !isIdle || link.value.state !== 'online') return null;
  return (
    <button type="button" disabled={seconds > 0} onClick={() => send(again.text || t('chat.goon'), again.attached)}>
      {seconds ? t('chat.retry.in', { s: n(seconds) }) : t('chat.retry')}
    </button>
  );
}

/** Who answers if there is no model, and how to connect one. */
function Demonstration() {
  return (
    <div class="note model">
      <p>
        <b>{t('chat.demo')}</b> {t('chat.demo.text')}
      </p>
      <ul>
        <li>
          <code>.venv/bin/codelab setup</code> {t('chat.demo.setup')}
        </li>
        <li>
          <code>LLM_BASE_URL=… LLM_API_KEY=… LLM_MODEL=… make run</code> {t('chat.demo.once')}
        </li>
      </ul>
    </div>
  );
}

function Welcome({ model }: { model: string | undefined }) {
  const open = folder.value;
  return (
    <section class="welcome">
      <h2>{t('chat.empty')}</h2>
      <p>{t('chat.empty.text')}</p>
      <p class="note">
        {open ? t('chat.folder', { name: visible(open.name) }) : t('files.none')}{' '}
        <button type="button" class="quiet" onClick={showFiles}>
          {t('chat.folder.other')}
        </button>
      </p>
      {model === DEMONSTRATION ? <Demonstration /> : <p class="note model">{model === undefined ? '\u00a0' : t('chat.model', { model: visible(model) })}</p>}
      <ul aria-label={t('chat.try')}>
        {(['chat.try.1', 'chat.try.2', 'chat.try.3'] as const).map((key) => (
          <li key={key}>
            <button type="button" disabled={link.value.state !== 'online'} onClick={() => send(t(key), [])}>
              {t(key)}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

const EntryView = memo(function EntryView({ entry }: { entry: Entry }) {
  switch (entry.kind) {
    case 'user':
      return <UserMessage entry={entry} />;
    case 'assistant':
      return <AssistantMessage entry={entry} />;
    case 'thought':
      return <Thought entry={entry} />;
    case 'draft':
      return <DraftCard draft={entry.draft} />;
    case 'call':
      return <CallCard call={entry.call} />;
    case 'switched':
      return (
        <p class="note" title={visible(entry.reason)}>
          {t('agent')}: {t('chat.switched', { from: visible(entry.from), to: visible(entry.to) })}
        </p>
      );
    case 'error': {
      const { title, words } = causeOf(entry.code, entry.text);
      return (
        <div class="failure" role="alert">
          <Icon name="warn" />
          <p dir="auto">
            {title && <b>{title}. </b>}
            {visible(words)}
          </p>
          {entry.code && <code>{entry.code}</code>}
        </div>
      );
    }
    case 'compacted':
      return <p class="note">{t(`compact.${entry.outcome}`, { before: n(entry.before), after: n(entry.after) })}</p>;
    case 'end': {
      const { prompt_tokens, completion_tokens, llm_calls, cost_usd } = entry.usage;
      const key = `turn.${entry.reason}` as Key;
      return (
        <p class="note end">
          <span>{t(key)}</span>
          <span>{`${t('turn.usage', { prompt: n(prompt_tokens ?? 0), completion: n(completion_tokens ?? 0) })}, ${counted('turn.calls', llm_calls ?? 0)}`}</span>
          {cost_usd != null && <span>${cost_usd.toFixed(4)}</span>}
        </p>
      );
    }
  }
});

function UserMessage({ entry }: { entry: Extract<Entry, { kind: 'user' }> }) {
  return (
    <article class={`said ${entry.state.value}`} aria-label={t('chat.you')}>
      <div class="words" dir="auto">
        <Long text={entry.text} />
      </div>
      {entry.attached.length > 0 && (
        <div class="images">
          {entry.attached.map((one, index) =>
            'url' in one ? <img key={index} src={one.url} alt={one.name} /> : <span key={index} class="badge">{visibleLine(one.name)}</span>,
          )}
        </div>
      )}
      {entry.state.value === 'sending' && <small>{t('chat.sending')}</small>}
      {entry.state.value === 'sent' && entry.isWhole && (
        <button type="button" class="quiet edit" aria-label={t('chat.rewrite')} title={t('chat.rewrite')} onClick={() => edit(entry)}>
          {t('chat.edit')}
        </button>
      )}
    </article>
  );
}

function AssistantMessage({ entry }: { entry: Extract<Entry, { kind: 'assistant' }> }) {
  return (
    <article class={`answer ${entry.final.value ? '' : 'writing'}`} aria-label={entry.agent || t('agent')} aria-busy={!entry.final.value}>
      <Markdown text={entry.text.value} />
      {entry.final.value && entry.text.value.trim() && (
        <div class="deeds">
          <CopyButton text={entry.text.value} label={t('chat.copy')} />
        </div>
      )}
    </article>
  );
}

function Thought({ entry }: { entry: Extract<Entry, { kind: 'thought' }> }) {
  return (
    <details class="thought">
      <summary>{t('chat.thought')}</summary>
      <div dir="auto">
        <Long text={entry.text.value} />
      </div>
    </details>
  );
}

/** One line of constant height: what the agent does, or what is wrong with the connection. */
function StatusLine({ live }: { live: Live }) {
  const now = useSignal(Date.now());
  const begun = useRef({ key: '', at: 0 });
  const status = live.conversation.status.value;
  const isBusy = status === 'thinking' || status === 'executing_tool';
  const act = isBusy ? actOf(live.conversation.entries.value) : undefined;
  const key = isBusy ? (act?.key ?? 'thinking') : '';
  if (begun.current.key !== key) begun.current = { key, at: Date.now() };
  const ticks = key !== '' || 'until' in link.value;
  useEffect(() => {
    if (!ticks) return;
    now.value = Date.now();
    const timer = setInterval(() => (now.value = Date.now()), 500);
    return () => clearInterval(timer);
  }, [ticks, key]);
  const seconds = Math.floor((now.value - begun.current.at) / 1000);
  const state = link.value;
  const pause = 'until' in state ? t(`link.${state.state}`, { s: Math.max(0, Math.ceil((state.until - now.value) / 1000)) }) : '';
  return (
    <p class={`status ${status}`} role="status">
      {pause || (status === 'idle' ? '' : act ? t(act.text, { what: act.what }) : t(`status.${status}`))}
      {!pause && key && seconds >= SHOWN_SECONDS && <span aria-hidden="true">{t('act.seconds', { s: n(seconds) })}</span>}
    </p>
  );
}
