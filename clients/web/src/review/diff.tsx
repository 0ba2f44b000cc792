import { useMemo, useState } from 'preact/hooks';
import { n, t } from '../i18n/index.ts';
import { Long } from '../conversation/markdown.tsx';
import { visibleLine } from '../conversation/safe.ts';
import type { Change } from '../workspace/changes.ts';
import { difference, type Note } from './difference.ts';

/** Lines that are shown at once. */
const MOST_LINES = 400;

/** What a change does to one file, line by line. */
export function DiffView({ change }: { change: Change }) {
  const { path, before, after } = change;
  const [most, setMost] = useState(MOST_LINES);
  const { lines, notes } = useMemo(() => difference(change), [path, before, after]);
  const shown = visibleLine(path);
  if (after === null) return <p class="note">{t('call.deletes', { path: shown })}</p>;
  if (before === after) return <p class="note">{t('call.unchanged')}</p>;
  return (
    <figure class="diff">
      <figcaption>
        <bdi>{shown}</bdi>
        {before === null && <span> {t('call.newfile')}</span>}
      </figcaption>
      <Notes notes={notes} />
      <div class="lines" tabIndex={0} role="group" aria-label={t('call.diff', { path: shown })} dir="ltr">
        {lines.slice(0, most).map((line, index) => (
          <div key={index} class={KINDS[line[0]!] ?? 'same'}>
            <span class="sign">{line[0]}</span>
            <span>
              <Long text={line.slice(KINDS[line[0]!] === 'hunk' ? 0 : 1)} inline most={2000} />
            </span>
          </div>
        ))}
      </div>
      {lines.length > most && (
        <button type="button" class="quiet" onClick={() => setMost(most + 10 * MOST_LINES)}>
          + {n(lines.length - most)}
        </button>
      )}
    </figure>
  );
}

const KINDS: Record<string, string> = { '+': 'added', '-': 'removed', '@': 'hunk', '\\': 'hunk' };

/** What no line of a difference shows. */
export function Notes({ notes }: { notes: readonly Note[] }) {
  return (
    <>
      {notes.map(([key, values]) => (
        <p key={key} class="unseen">
          {t(key, values)}
        </p>
      ))}
    </>
  );
}
