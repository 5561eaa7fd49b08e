/**
 * A config for a server, proposed from the list of its tools: JSON with comments, for a person to read and change. Only what a
 * preset knows is switched on. What a name or a schema suggests stands in comments: a tool that is wrongly taken for a reader
 * would be let through, and a key with too few arguments would swallow calls.
 */
import { soundsLikeMoney, soundsLikeReading } from "../../core/money-name.ts";
import type { ProxyToolConfig } from "./config.ts";
import { passesByHint } from "./hints.ts";
import type { Preset } from "./presets.ts";
import type { ToolInfo } from "./rpc.ts";

export interface Proposal {
  readonly server: string;
  /** How the server is started, as a person would type it. */
  readonly command: string;
  readonly file: string;
  readonly tools: readonly ToolInfo[];
  readonly preset: Preset | null;
  /** Tools that answered when they were probed, and whether with JSON. */
  readonly probed: ReadonlyMap<string, "json" | "text" | "error">;
}

export type Standing = "preset" | "passes" | "may-read" | "money" | "acts";

/** What becomes of a tool with the proposed config, and why it stands where it stands. */
export function standingOf({ name, annotations }: ToolInfo, preset: Preset | null): Standing {
  if (preset !== null && Object.hasOwn(preset.tools, name)) return "preset";
  if (passesByHint(annotations)) return "passes";
  if (soundsLikeReading(name)) return "may-read";
  return soundsLikeMoney(name) ? "money" : "acts";
}

export function proposedConfig(proposal: Proposal): string {
  const { server, command, file, tools, preset } = proposal;
  const of = (...wanted: Standing[]) => tools.filter((tool) => wanted.includes(standingOf(tool, preset)));
  const sections = [
    section(of("preset"), "", (tool) => presetLines(tool, preset as Preset)),
    section(of("passes"), "", (tool) => passingLines(tool, proposal)),
    section(of("may-read"), "By their names these only read. Where that is so, they may pass:", (tool) =>
      off(tool, { readOnly: true }),
    ),
    section(
      of("money"),
      'By their names these move money. Where that is so, say what names a payment, and "scope": null at the top:',
      (tool) => off(tool, { key: keyOf(tool).key, effect: "payment" }),
    ),
    section(of("acts"), "These act. To have one once per intent, say which arguments name the intent:", (tool) =>
      off(tool, { ...keyOf(tool), keep: "1d" }),
    ),
  ];
  return `${[
    `// Proposed by nevertwice mcp init for ${comment(server)}. Read it, change what is wrong, then start the server with:`,
    `//   npx nevertwice mcp --config ${comment(file)} -- ${comment(command)}`,
    "// A tool that is not named here has the default: an identical call is a repeat only while the answer of the first one",
    "// may not have arrived. A tool with a key is called once per key for as long as keep says.",
    ...(preset === null
      ? []
      : [`// The entries that are switched on are those of the preset ${JSON.stringify(preset.name)}.`]),
    "{",
    '  "tools": {',
    ...sections.filter((lines) => lines.length > 0).flatMap((lines, i) => (i === 0 ? lines : ["", ...lines])),
    "  }",
    "}",
  ].join("\n")}\n`;
}

function section(
  tools: readonly ToolInfo[],
  heading: string,
  linesOf: (tool: ToolInfo) => readonly string[],
): readonly string[] {
  if (tools.length === 0) return [];
  const lines = [...(heading === "" ? [] : [`// ${heading}`]), ...tools.flatMap((tool) => linesOf(tool))];
  return lines.map((line) => `    ${line}`);
}

function presetLines({ name }: ToolInfo, { tools }: Preset): string[] {
  const { config, why } = tools[name] as Preset["tools"][string];
  return [`// ${why}`, entry(name, config)];
}

function passingLines({ name, annotations }: ToolInfo, { probed }: Proposal): string[] {
  const word = annotations?.readOnlyHint === true ? "read-only" : "idempotent";
  const seen = probed.get(name);
  const answer =
    seen === "json"
      ? '; its answer is JSON, so that the "verify" of another tool can look with it'
      : seen === "error"
        ? "; called without arguments, it answered with an error"
        : "";
  return [`// ${comment(JSON.stringify(name))} passes: ${word} by its own word${answer}`];
}

/** Switched off: the entry is a comment. */
function off({ name }: ToolInfo, config: ProxyToolConfig): string[] {
  return [`// ${comment(entry(name, config))}`];
}

function entry(name: string, config: ProxyToolConfig): string {
  const fields = Object.entries(config).map(([field, value]) => `${JSON.stringify(field)}: ${list(value)}`);
  return `${JSON.stringify(name)}: { ${fields.join(", ")} },`;
}

function list(value: unknown): string {
  return Array.isArray(value) ? `[${value.map((one) => JSON.stringify(one)).join(", ")}]` : JSON.stringify(value);
}

// Names of arguments that a model words anew each time.
const WORDED = new Set(
  "body content contents text message description comment comments note notes summary html markdown prompt reason details caption".split(
    " ",
  ),
);

/** The required arguments without those that are worded anew; these may differ. */
function keyOf({ inputSchema }: ToolInfo): { readonly key: readonly string[]; readonly free?: readonly string[] } {
  const { properties, required } = (inputSchema ?? {}) as { properties?: unknown; required?: unknown };
  const names = typeof properties === "object" && properties !== null ? Object.keys(properties) : [];
  const asked = Array.isArray(required) ? names.filter((name) => required.includes(name)) : [];
  const naming = asked.filter((name) => !WORDED.has(name.toLowerCase()));
  const free = names.filter((name) => WORDED.has(name.toLowerCase()));
  const key = naming.length > 0 ? naming : asked.length > 0 ? asked : names;
  const others = free.filter((name) => !key.includes(name));
  return { key: key.length === 0 ? ["…"] : key, ...(others.length > 0 && { free: others }) };
}

/** Names come from a server: nothing in them may end the comment. */
function comment(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "?");
}
