import { Buffer } from 'buffer';

// isomorphic-git uses the one of Node.js as a global.
(globalThis as { Buffer?: unknown }).Buffer ??= Buffer;
