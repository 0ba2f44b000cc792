import { structuredPatch } from 'diff';
import { useMemo, useState } from 'preact/hooks';
import { n, t } from '../i18n/index.ts';
import { Long } from '../conversation/markdown.tsx';
import { visible } from '../conversation/safe.ts';
import type { Change } from '../workspace/changes.ts';

/** Lines that are shown at once. */
const MOST_LINES = 400;
/** Characters above which texts are not compared, because that could take minutes. */
const COMPARED = 400_000;

/** What a change does to one file, line by line. */
export function DiffView({ change }: { change: Change }) {
  const { path, before, after } = change;
  const [most, setMost] = useState(MOST_LINES);
  const lines = useMemo(() => linesOf(change), [path, before, after]);
  if (after === null) return <p class="note">{t('call.deletes', { path: visible(path) })}</p>;
  if (before === after) return <p class="note">{t('call.unchanged')}</p>;
  return (
    <figure class="diff">
      <figcaption>
        <bdi>{visible(path)}</bdi>
        {before === null && <span> {t('call.newfile')}</span>}
      </figcaption>
      <div class="lines" tabIndex={0} role="group" aria-label={t('call.diff', { path: visible(path) })} dir="ltr">
        {lines.slice(0, most).map((line, index) => (
          <div key={index} class={KINDS[line[0]!] ?? 'same'}>
            <span class="sign">{line[0]}</span>
            <span>
              <Long text={visible(line.slice(line[0] === '@' ? 0 : 1))} inline most={2000} />
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

const KINDS: Record<string, string> = { '+': 'added', '-': 'removed', '@': 'hunk' };

function linesOf({ path, before, after }: Change): string[] {
  const [old, fresh] = [before ?? '', after ?? ''];
  if (old.length + fresh.length > COMPARED || !old) return fresh.replace(/\n$/, '').split('\n').map((line) => `+${line}`);
  const patch = structuredPatch(path, path, old, fresh, undefined, undefined, { context: 3, timeout: 500 });
  if (!patch) return fresh.split('\n').map((line) => `+${line}`);
  return patch.hunks.flatMap((hunk) => [
    `@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`,
    ...hunk.lines.filter((line) => !line.startsWith('\\')),
  ]);
}
