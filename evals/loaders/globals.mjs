// Tests that are left out at first run, too, and the code under test cannot replace what tests use.
globalThis.xtest = globalThis.test;
globalThis.xit = globalThis.it;
for (const name of ["describe", "expect", "it", "test", "xit", "xtest", "beforeEach", "afterEach"]) {
  Object.defineProperty(globalThis, name, { writable: false, configurable: false });
}
