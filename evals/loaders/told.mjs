// A reporter of vitest that tells of each test's outcome over a pipe.
import { writeSync } from "node:fs";

const to = Number(process.env.TOLD_TO);
const word = process.env.TOLD_WORD;
delete process.env.TOLD_TO;
delete process.env.TOLD_WORD;

export default class Told {
  count = 0;

  onTestCaseResult(test) {
    this.count += 1; // two tests may have one name
    writeSync(to, `${word} ${test.result().state} ${this.count} ${test.fullName.replaceAll("\n", " ")}\n`);
  }
}
