"""Changes of a small TypeScript project: one file and several."""

from evals.suite.task import Task, replaced

ORDER = """export interface Order {
  id: number;
  customer: string;
  lines: OrderLine[];
}

export interface OrderLine {
  product: string;
  count: number;
  priceCents: number;
}

export const MAX_LINES = 40;

export function totalCents(order: Order): number {
  return order.lines.reduce((sum, line) => sum + line.count * line.priceCents, 0);
}
"""
INVOICE = """import { Order, totalCents } from "./order";

export const VAT_PERCENT = 19;

export function invoiceText(order: Order): string {
  const total = totalCents(order);
  const vat = Math.round((total * VAT_PERCENT) / 100);
  return `Invoice ${order.id} for ${order.customer}: ${format(total + vat)}`;
}

function format(cents: number): string {
  return `${(cents / 100).toFixed(2)} EUR`;
}
"""
MAIN = """import { invoiceText } from "./invoice";
import { Order, MAX_LINES } from "./order";

export function accept(order: Order): string {
  if (order.lines.length > MAX_LINES) {
    throw new Error("too many lines");
  }
  return invoiceText(order);
}
"""
FILES = {"src/order.ts": ORDER, "src/invoice.ts": INVOICE, "src/main.ts": MAIN}

TASKS = (
    Task(
        "ts-vat",
        "edit a line",
        "In src/invoice.ts, set VAT_PERCENT to 21.",
        FILES,
        {"src/invoice.ts": (replaced(INVOICE, ("VAT_PERCENT = 19", "VAT_PERCENT = 21")),)},
    ),
    Task(
        "ts-optional",
        "edit a line",
        "Make the field customer of the interface Order in src/order.ts optional. Change nothing else.",
        FILES,
        {"src/order.ts": (replaced(ORDER, ("customer: string", "customer?: string")),)},
    ),
    Task(
        "ts-rename",
        "edit two files",
        "Rename the function totalCents to sumCents in src/order.ts and src/invoice.ts.",
        FILES,
        {
            "src/order.ts": (replaced(ORDER, ("totalCents", "sumCents")),),
            "src/invoice.ts": (replaced(INVOICE, ("totalCents", "sumCents")),),
        },
    ),
    Task(
        "ts-limit-ru",
        "edit two files",
        "Переименуй константу MAX_LINES в LINE_LIMIT во всех файлах папки src и сделай её равной 50.",
        FILES,
        {
            "src/order.ts": (replaced(ORDER, ("MAX_LINES = 40", "LINE_LIMIT = 50")),),
            "src/main.ts": (replaced(MAIN, ("MAX_LINES", "LINE_LIMIT")),),
        },
    ),
    Task(
        "ts-find",
        "find a definition",
        "Which file of this project turns cents into a text with EUR, and how is the function called?",
        FILES,
        facts=(r"invoice\.ts", r"\bformat\b"),
        answer="src/invoice.ts: format",
    ),
)
