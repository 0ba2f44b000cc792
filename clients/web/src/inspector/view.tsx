import { useSignal } from '@preact/signals';
import type { Session } from '@codelab/client';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { visible, visibleLine } from '../conversation/safe.ts';
import { bytes, counted, language, n, t } from '../i18n/index.ts';
import type { Live } from '../live.ts';
import { Icon } from '../shell/icon.tsx';
import type { FrameLog, Row } from './log.ts';
import { turnsOf, type Span } from './turns.ts';

export function InspectorView({ live }: { live: Live }) {
  const tab = useSignal<'frames' | 'turns' | 'prompt'>('frames');
  const filter = useSignal('');
  const from = useSignal('0');
  const { log, session } = live;
  void log.version.value;
  return (
    <div class="inspector">
      <header class="bar">
        <button type="button" onClick={() => session.wire.cut()}>
          <Icon name="cut" />
          {t('inspector.cut')}
        </button>
        <form
          class="replay"
          onSubmit={(event) => {
            event.preventDefault();
            session.wire.replay(Math.max(0, Math.floor(Number(from.value) || 0)));
          }}
        >
          <button type="submit">{t('inspector.replay')}</button>
          <input
            type="number"
            min={0}
            aria-label={`${t('inspector.replay')} ${t('inspector.seq')}`}
            value={from.value}
            onInput={(event) => (from.value = event.currentTarget.value)}
          />
        </form>
        <button type="button" onClick={() => window.open(location.href, '_blank', 'noopener')}>
          {t('inspector.window')}
        </button>
        <button type="button" onClick={() => exported(live)}>
          {t('inspector.export')}
        </button>
        <button type="button" class="quiet" onClick={() => log.clear()}>
          {t('inspector.clear')}
        </button>
      </header>
      <p class="sum">
        {[
          counted('inspector.n.frames', log.rows.length),
          bytes(log.bytes),
          counted('inspector.n.gaps', log.gaps),
          counted('inspector.n.repeats', log.repeats),
          counted('inspector.n.connections', log.connections),
        ].join(', ')}
      </p>
      <div class="tabs">
        <div role="tablist" aria-label={t('nav.inspector')}>
        {(['frames', 'turns', 'prompt'] as const).map((name) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={tab.value === name} aria-controls="inspected" onClick={() => (tab.value = name)}>
            {t(`inspector.${name}`)}
          </button>
        ))}
        </div>
        {tab.value === 'frames' && (
          <input
            type="search"
            aria-label={t('inspector.filter')}
            placeholder={t('inspector.filter')}
            value={filter.value}
            onInput={(event) => (filter.value = event.currentTarget.value)}
          />
        )}
      </div>
      <div id="inspected" role="tabpanel" aria-labelledby={`tab-${tab.value}`}>
        {tab.value === 'frames' && <Frames log={log} filter={filter.value} />}
        {tab.value === 'turns' && <Turns log={log} />}
        {tab.value === 'prompt' && <NextRequest key={session.sessionId} session={session} />}
      </div>
    </div>
  );
}

function exported({ log, session }: Live): void {
  const lines = log.rows.map(({ kind, at, connection, bytes: size, fate, frame, text }) =>
    JSON.stringify({ kind, at, connection, bytes: size, ...(fate && { fate }), ...(frame ? { frame } : text && { text }) }),
  );
  const url = URL.createObjectURL(new Blob([`${lines.join('\n')}\n`], { type: 'application/x-ndjson' }));
  Object.assign(document.createElement('a'), { href: url, download: `${session.sessionId}.ndjson` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Pixels; style.css has the same. */
const ROW = 28;

/** Only the rows on the screen are elements, so 10,000 cost what 30 cost. */
function Frames({ log, filter }: { log: FrameLog; filter: string }) {
  const scroller = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const following = useRef(true);
  const chosen = useSignal<Row | undefined>(undefined);
  const version = log.version.value;
  // Cleared, or forgotten since: there is nothing to show any more.
  if (chosen.value && !log.rows.includes(chosen.value)) chosen.value = undefined;
  const needle = filter.trim().toLowerCase();
  const rows = needle ? log.rows.filter((row) => row.type.includes(needle) || row.text.toLowerCase().includes(needle)) : log.rows;

  useLayoutEffect(() => {
    const element = scroller.current!;
    const watch = new ResizeObserver(() => (height.value = element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (following.current) scroller.current!.scrollTop = scroller.current!.scrollHeight;
  }, [version]);

  const first = Math.max(0, Math.floor(top.value / ROW) - 5);
  const last = Math.min(rows.length, Math.ceil((top.value + height.value) / ROW) + 5);
  const index = chosen.value ? rows.indexOf(chosen.value) : -1;
  const move = (step: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, (index < 0 ? rows.length : index) + step));
    chosen.value = rows[next];
    const element = scroller.current!;
    if (next * ROW < element.scrollTop) element.scrollTop = next * ROW;
    else if ((next + 1) * ROW > element.scrollTop + element.clientHeight) element.scrollTop = (next + 1) * ROW - element.clientHeight;
  };
  return (
    <div class="frames">
      <div
        class="rows"
        ref={scroller}
        tabIndex={0}
        role="listbox"
        aria-label={t('inspector.frames')}
        aria-activedescendant={index >= first && index < last ? `frame-${chosen.value!.n}` : undefined}
        onScroll={(event) => {
          const element = event.currentTarget;
          top.value = element.scrollTop;
          following.current = element.scrollHeight - element.scrollTop - element.clientHeight < ROW * 2;
        }}
        onKeyDown={(event) => {
          const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -15, PageDown: 15, Home: -rows.length, End: rows.length }[event.key];
          if (step === undefined) return;
          event.preventDefault();
          move(step);
        }}
      >
        <div class="whole" role="presentation" style={{ height: `${rows.length * ROW}px` }}>
          {rows.slice(first, last).map((row, at) => (
            <div
              key={row.n}
              id={`frame-${row.n}`}
              class={`row ${row.kind} ${row.fate ?? ''}`}
              role="option"
              aria-selected={row === chosen.value}
              style={{ transform: `translateY(${(first + at) * ROW}px)` }}
              onClick={() => (chosen.value = row)}
            >
              <RowText row={row} />
            </div>
          ))}
        </div>
      </div>
      {rows.length === 0 && <p class="note">{t('inspector.none')}</p>}
      <Detail row={chosen.value} />
    </div>
  );
}

function RowText({ row }: { row: Row }) {
  const notable = row.fate && row.fate !== 'next' && row.fate !== 'reply' ? row.fate : '';
  return (
    <>
      <Icon name={row.kind === 'out' || row.kind === 'put' ? 'out' : row.kind === 'in' || row.kind === 'get' ? 'in' : 'cut'} />
      <span class="hidden">{row.kind}</span>
      <span class="time">{clock(row.at)}</span>
      <span class="seq">{row.seq ?? ''}</span>
      <span class="type">{visible(row.type)}</span>
      <span class="text">{notable ? <b>{t(`inspector.${notable}`)}</b> : visible(summary(row))}</span>
      <span class="size">{bytes(row.bytes)}</span>
    </>
  );
}

function summary(row: Row): string {
  const frame = row.frame ?? {};
  for (const name of ['token', 'tool_name', 'status', 'reason', 'decision', 'error_code', 'content', 'last_seq', 'to_agent']) {
    const value = frame[name];
    if ((typeof value === 'string' && value) || typeof value === 'number') return String(value).slice(0, 120);
  }
  return row.frame ? '' : row.text.slice(0, 120);
}

function Detail({ row }: { row: Row | undefined }) {
  if (!row) return null;
  const text = row.frame ? JSON.stringify(row.frame, null, 2) : row.text;
  return (
    <section class="detail" aria-label={t('inspector.detail', { n: row.n })}>
      <pre tabIndex={0} dir="ltr">
        {visible(text.slice(0, 20_000))}
      </pre>
    </section>
  );
}

function clock(at: number): string {
  return `${new Date(at).toLocaleTimeString(language.value, { hour12: false })}.${String(at % 1000).padStart(3, '0')}`;
}

interface Prompt {
  tokens: Record<string, number>;
  request: unknown;
}

/** What the next step would send to the model. Only a local server tells it. */
function NextRequest({ session }: { session: Session }) {
  const found = useSignal<Prompt | string | undefined>(undefined);
  const look = async () => {
    try {
      found.value = await session.rest.request<Prompt>('GET', `/sessions/${session.sessionId}/prompt`);
    } catch (error) {
      found.value = error instanceof Error ? error.message : String(error);
    }
  };
  useEffect(() => void look(), []);
  const told = found.value;
  if (told === undefined) return null;
  const again = (
    <button type="button" onClick={() => void look()}>
      {t('inspector.again')}
    </button>
  );
  if (typeof told === 'string') {
    return (
      <p class="note">
        {t('inspector.noprompt')} {visible(told)} {again}
      </p>
    );
  }
  const parts = Object.entries(told.tokens).filter(([, count]) => count > 0);
  return (
    <section class="detail prompt" aria-label={t('inspector.prompt')}>
      <p>
        {counted('inspector.tokens', parts.reduce((sum, [, count]) => sum + count, 0))}{' '}
        {parts.map(([name, count]) => `${name} ${n(count)}`).join(', ')} {again}
      </p>
      <pre tabIndex={0} dir="ltr">
        {visible(JSON.stringify(told.request, null, 2))}
      </pre>
    </section>
  );
}

/** Each turn as a line of what it waited for. */
function Turns({ log }: { log: FrameLog }) {
  void log.version.value; // A component with signals is drawn again only when one of its own changes.
  const turns = turnsOf(log.rows);
  if (!turns.length) return <p class="note">{t('inspector.noturns')}</p>;
  return (
    <ul class="turns">
      {turns.map((turn) => {
        const whole = Math.max(1, turn.end - turn.start);
        return (
          <li key={turn.id}>
            <p>
              <b dir="auto" title={turn.id}>
                {visibleLine(turn.message) || turn.id}
              </b>{' '}
              <span class="seconds">{t('inspector.seconds', { s: (whole / 1000).toLocaleString(language.value, { maximumFractionDigits: 2 }) })}</span>
            </p>
            <div class="line" role="img" aria-label={turn.spans.map((span) => label(span)).join(', ')}>
              {turn.spans.map((span, index) => (
                <span key={index} class={`span span-${span.kind}`} title={label(span)} style={{ width: `${((span.end - span.start) / whole) * 100}%` }} />
              ))}
            </div>
            <p class="legend">
              {turn.spans
                .filter((span) => span.end - span.start >= whole / 50)
                .map((span, index) => (
                  <span key={index} class={`span-${span.kind}`}>
                    {label(span)}
                  </span>
                ))}
            </p>
          </li>
        );
      })}
    </ul>
  );
}

function label(span: Span): string {
  return `${t(`inspector.${span.kind}`)} ${t('ms', { n: n(Math.round(span.end - span.start)) })}`;
}
