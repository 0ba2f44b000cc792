import { defineConfig } from 'vite';

export default defineConfig({
  base: '/',
  build: {
    target: 'es2022',
    manifest: true,
    modulePreload: { polyfill: false }, // It would be the only script that looks at what the page loads.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  resolve: {
    alias: { '@codelab/client': new URL('../typescript/src/index.ts', import.meta.url).pathname },
  },
});
