import { createRef, render } from "preact";
import type { ToView } from "../messages.ts";
import { applied, type Surroundings, type View } from "../model.ts";
import { App, type AppProps } from "./app.tsx";
import { tell } from "./host.ts";

const NOTHING: Surroundings = {
  connection: "connecting",
  trouble: "",
  needsToken: false,
  status: "idle",
  title: "",
  mode: "",
  actingMode: "code",
  model: "",
  models: [],
  agent: "",
  plan: [],
  queue: [],
  usage: "",
  hasEarlier: false,
  restriction: "",
};
const EMPTY: View = { items: [], around: NOTHING };
const area: AppProps["area"] = createRef();
let [view, suggested]: [View, AppProps["suggested"]] = [EMPTY, { text: "", paths: [] }];

function draw(): void {
  render(<App view={view} suggested={suggested} area={area} />, document.getElementById("app")!);
}

/** Put a text where the caret is, as if it had been typed. */
function insert(text: string): void {
  const element = area.current!;
  element.focus();
  element.setRangeText(text, element.selectionStart, element.selectionEnd, "end");
  element.dispatchEvent(new Event("input", { bubbles: true }));
}

addEventListener("message", ({ data }: MessageEvent<ToView>) => {
  if (data.type === "delta") view = applied(data.isWhole ? EMPTY : view, data.delta);
  else if (data.type === "paths") suggested = data;
  else if (data.type === "insert") return insert(data.text);
  draw();
});
draw();
tell({ type: "ready" });
