import './style.css';
import { render } from 'preact';
import { follow, start } from './live.ts';
import { App } from './shell/app.tsx';
import './shell/theme.ts';
import { signalWaiting } from './shell/waiting.ts';
import { reopen } from './workspace/open.ts';

render(<App />, document.getElementById('app')!);
signalWaiting();
reopen();
void start();
addEventListener('popstate', follow);
