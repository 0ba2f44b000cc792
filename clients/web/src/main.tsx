import './style.css';
import { render } from 'preact';
import { follow, start } from './live.ts';
import { followNotes } from './notes/kept.ts';
import { followPushes } from './push/follow.ts';
import { App } from './shell/app.tsx';
import './shell/theme.ts';
import { signalWaiting } from './shell/waiting.ts';
import { reopen } from './workspace/open.ts';

render(<App />, document.getElementById('app')!);
signalWaiting();
reopen();
followNotes();
followPushes();
void start();
addEventListener('popstate', follow);
