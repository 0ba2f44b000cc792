/** Strokes in a square of 24. */
const PATHS = {
  chat: 'M4 5h16v11H9l-5 4z',
  files: 'M3 6h6l2 2h10v11H3z',
  inspector: 'M3 12h4l3-7 4 14 3-7h4',
  sessions: 'M4 6h16M4 12h16M4 18h10',
  settings: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 4v6M9 14v6',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  plus: 'M12 5v14M5 12h14',
  close: 'M6 6l12 12M18 6 6 18',
  copy: 'M9 9h10v10H9zM5 15V5h10',
  check: 'M5 12l5 5 9-10',
  more: 'M6 12h.01M12 12h.01M18 12h.01',
  down: 'M12 5v14M6 13l6 6 6-6',
  right: 'M9 6l6 6-6 6',
  unfolded: 'M6 9l6 6 6-6',
  folder: 'M3 6h6l2 2h10v11H3z',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4',
  search: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l5 5',
  warn: 'M12 4 2 20h20zM12 10v5M12 17.5v.01',
  tool: 'M14 6a4 4 0 0 1 5-1l-3 3 1 2 2 1 3-3a4 4 0 0 1-6 5l-7 7-3-3 7-7a4 4 0 0 1 1-4z',
  cut: 'M4 12h5M15 12h5M10 7l-1-3M14 17l1 3M14 7l1-2M10 17l-1 2',
  out: 'M5 12h14M13 6l6 6-6 6',
  in: 'M19 12H5M11 6l-6 6 6 6',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="glyph" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
