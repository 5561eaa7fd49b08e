/**
 * The versions of the frameworks that the wrappers are made for, and the one that is installed. Another version may hand
 * over other arguments: with AI SDK 5 every result of a guarded tool read `null`. So it is looked up when a tool is guarded.
 * A program that was bundled has nothing to look up; then the wrappers go by the shape of what they are given.
 */
import { configError } from "../../core/errors.ts";

/** As among the peer dependencies of package.json. */
export const FRAMEWORKS = {
  ai: ">=6.0.0 <8.0.0",
  "@anthropic-ai/claude-agent-sdk": ">=0.3.142 <0.4.0",
  "@langchain/core": ">=1.0.1 <2.0.0",
  // Earlier ones do not tell a middleware its thread.
  langchain: ">=1.3.0 <2.0.0",
  "@mastra/core": ">=1.1.0 <2.0.0",
  "@openai/agents": ">=0.8.0 <1.0.0",
} as const;

export type Framework = keyof typeof FRAMEWORKS;

const found = new Map<Framework, string | null>();

/** Throws where a version is installed that the wrapper is not made for. */
export function requireFramework(name: Framework, where: string): void {
  if (!found.has(name)) found.set(name, unfit(installed(name), FRAMEWORKS[name]));
  const wrong = found.get(name);
  if (wrong === null || wrong === undefined) return;
  const range = FRAMEWORKS[name];
  throw configError(
    `${where}: ${name} ${wrong} is installed, and this wrapper works with ${range}: with another version results may be lost or changed. Install one of these, npm install "${name}@${range}", or guard the tool's own function with guardTool of nevertwice/agents.`,
  );
}

/** The first version, where none of them is in the range; null: one is, or none is known. */
export function unfit(versions: readonly string[], range: string): string | null {
  return versions.some((version) => isIn(version, range)) ? null : (versions[0] ?? null);
}

/** `>=1.2.3 <2.0.0`. A prerelease counts as the version it leads to. */
export function isIn(version: string, range: string): boolean {
  const at = numbers(version);
  if (at === null) return true;
  return range.split(" ").every((part) => {
    const bound = numbers(part.replace(/^\D+/, "")) ?? [];
    const order = compare(at, bound);
    return part.startsWith(">=") ? order >= 0 : order < 0;
  });
}

function numbers(version: string): readonly number[] | null {
  const match = /^(\d+)\.(\d+)\.(\d+)/.exec(version);
  return match === null ? null : match.slice(1).map(Number);
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < 3; i += 1) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

interface Builtins {
  getBuiltinModule?(name: string): unknown;
  readonly argv?: readonly string[];
  cwd?(): string;
}

/** What the program, and this package, would import; several where they differ. */
function installed(name: Framework): readonly string[] {
  try {
    const { process } = globalThis as { process?: Builtins };
    const node = process?.getBuiltinModule?.("node:module") as typeof import("node:module") | undefined;
    const fs = process?.getBuiltinModule?.("node:fs") as typeof import("node:fs") | undefined;
    if (node === undefined || fs === undefined) return [];
    const from = [process?.argv?.[1], import.meta.url, `${process?.cwd?.()}/x.js`];
    return from.flatMap((base) => versionFrom(base, name, node, fs) ?? []);
  } catch {
    return [];
  }
}

/** By the folders that a package is looked for in: not every package lets its package.json be imported. */
function versionFrom(
  base: string | undefined,
  name: string,
  { createRequire }: typeof import("node:module"),
  { readFileSync }: typeof import("node:fs"),
): string | undefined {
  try {
    for (const folder of createRequire(base as string).resolve.paths(name) ?? []) {
      try {
        const { version } = JSON.parse(readFileSync(`${folder}/${name}/package.json`, "utf8")) as { version?: unknown };
        if (typeof version === "string") return version;
      } catch {
        // Not in this folder.
      }
    }
  } catch {
    // Not a file: a program that was given by --eval.
  }
  return undefined;
}
