import { useMemo, useState } from 'preact/hooks';
import { n, t } from '../i18n/index.ts';
import { Long } from '../conversation/markdown.tsx';
import { visible, visibleLine } from '../conversation/safe.ts';
import type { Change } from '../workspace/changes.ts';
import { difference, type Note } from './difference.ts';
import type { Stated } from './stated.ts';

/** Lines that are shown at once. */
const MOST_LINES = 400;

/** What a change does to one file, line by line. */
export function DiffView({ change }: { change: Change }) {
  const { path, before, after } = change;
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
      <Lines path={shown} lines={lines} />
    </figure>
  );
}

/** What a call says of a file whose content from then is not known. */
export function StatedView({ stated: { path, lines, notes, content, deletes } }: { stated: Stated }) {
  const shown = visibleLine(path);
  if (deletes) return <p class="note">{t('call.deletes', { path: shown })}</p>;
  return (
    <figure class="diff">
      <figcaption>
        <bdi>{shown}</bdi>
      </figcaption>
      <Notes notes={notes} />
      {content === undefined ? (
        <Lines path={shown} lines={lines} />
      ) : (
        <pre class="content" dir="ltr" tabIndex={0} aria-label={t('call.diff', { path: shown })}>
          <Long text={visible(content)} inline />
        </pre>
      )}
    </figure>
  );
}

function Lines({ path, lines }: { path: string; lines: readonly string[] }) {
  const [most, setMost] = useState(MOST_LINES);
  return (
    <>
      <div class="lines" tabIndex={0} role="group" aria-label={t('call.diff', { path })} dir="ltr">
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
    </>
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
