import { expect, test } from "vitest";
import { Sequence } from "../src/sequence.ts";

type Frame = { seq: number; execute?: boolean };

function taken(sequence: Sequence<Frame>, ...frames: Frame[]): Frame[] {
  return frames.flatMap((frame) => sequence.take(frame, frame.seq, 0) ?? []);
}

test.each([[[true, false]], [[false, true]], [[false, true, false]], [[true, true]]])(
  "a call that waits behind a gap is executed if any copy says so: %j",
  (copies) => {
    const sequence = new Sequence<Frame>(0);
    const ready = taken(sequence, ...copies.map((execute) => ({ seq: 3, execute })), { seq: 1 }, { seq: 2 });
    expect(ready).toEqual([{ seq: 1 }, { seq: 2 }, { seq: 3, execute: true }]);
  },
);

test("a new connection says anew who executes it", () => {
  const sequence = new Sequence<Frame>(0);
  expect(taken(sequence, { seq: 3, execute: true })).toEqual([]);
  sequence.connected();
  expect(sequence.hasGap(10_000)).toBe(false);
  const last = { seq: 3, execute: false };
  expect(taken(sequence, { seq: 1 }, { seq: 2 }, last)).toEqual([{ seq: 1 }, { seq: 2 }, last]);
});
