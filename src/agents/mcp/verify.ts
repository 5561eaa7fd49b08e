/** Looking whether a call happened, with another tool of the same server. */
import { parseExact, stringifyExact } from "../../core/exact-json.ts";
import type { ProbeAnswer } from "../../core/policy.ts";
import type { VerifyConfig } from "./config.ts";
import type { ToolResult } from "./result.ts";

export type CallTool = (name: string, args: Readonly<Record<string, unknown>>) => Promise<ToolResult>;

type Arguments = Readonly<Record<string, unknown>>;

export async function verifyCall(
  verify: VerifyConfig,
  args: Arguments,
  call: CallTool,
): Promise<ProbeAnswer<ToolResult>> {
  const answer = await call(verify.tool, filled(verify.arguments ?? {}, args));
  if (answer.isError === true) return "unknown";
  const read = readable(answer);
  // A text that is no data cannot be searched for "not there".
  if (read === null) return "unknown";
  const [found] = matches(read.value, filled(verify.match, args));
  if (found === undefined) return "not-done";
  return { as: "done", result: { content: [{ type: "text", text: stringifyExact(found) }] } };
}

/** How many entries of the verify tool's answer fit; null: it cannot be searched. */
export async function countMatches(verify: VerifyConfig, args: Arguments, call: CallTool): Promise<number | null> {
  const answer = await call(verify.tool, filled(verify.arguments ?? {}, args));
  const read = answer.isError === true ? null : readable(answer);
  return read === null ? null : [...matches(read.value, filled(verify.match, args))].length;
}

/** "$title" becomes the call's own title. */
function filled(template: Arguments, args: Arguments): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(template).map(([name, value]) => [
      name,
      typeof value === "string" && value.startsWith("$") ? args[value.slice(1)] : value,
    ]),
  );
}

function readable(answer: ToolResult): { readonly value: unknown } | null {
  if (answer.structuredContent !== undefined) return { value: answer.structuredContent };
  const texts = (answer.content ?? []).filter((block) => block.type === "text").map((block) => String(block.text));
  try {
    return { value: texts.map((text) => parseExact(text)) };
  } catch {
    return null;
  }
}

// An answer is data from elsewhere: a deep or huge one must end.
const MOST_NODES = 200_000;

function* matches(value: unknown, wanted: Record<string, unknown>): Generator<object> {
  const open: unknown[] = [value];
  for (let nodes = 0; open.length > 0; nodes += 1) {
    if (nodes > MOST_NODES) throw new Error("the verify tool's answer is too large to search");
    const node = open.pop();
    if (typeof node !== "object" || node === null) continue;
    const fits = Object.entries(wanted).every(([name, is]) => same((node as Arguments)[name], is));
    if (!Array.isArray(node) && fits) yield node;
    else for (const inner of Object.values(node)) open.push(inner);
  }
}

function same(one: unknown, two: unknown): boolean {
  return one !== undefined && JSON.stringify(one) === JSON.stringify(two);
}
