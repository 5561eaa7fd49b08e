/** docs/requirements.md: each of the 205 points has a carrier that exists, and each id in the name of a test is explained. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const POINTS = 205;
/** How many points each article has. */
const BY_ARTICLE = { S0: 45, S1: 36, S2: 44, S3: 48, S4: 32 };
/** What is planned and has no test yet. */
const PLANNED = /^planned: (providers|inbox|metrics|alerts|logs|scaling|test kit): \S/;
/** Rows that must have tests with their id, not only a place in the table. */
const SHOWN = ["K8", "K9", "K10", "O13", "O14", "O15", "B6", "R8", "R9", "R10", "A5", "A6", "D6", "D7", "D8"];
/** Shorter, a piece of a name could be in any of them. */
const DISTINCTIVE = 12;

const page = readFileSync(join(root, "docs/requirements.md"), "utf8");

function section(heading: string): string[] {
  const from = page.split(`\n${heading}\n`)[1] ?? "";
  const body = from.split(/\n#{2,3} /)[0] ?? "";
  return body.split("\n").filter((row) => row.startsWith("| "));
}

const cells = (row: string) =>
  row
    .split(" | ")
    .map((cell, at, all) => (at === 0 ? cell.slice(2) : at === all.length - 1 ? cell.replace(/ \|$/, "") : cell))
    .map((cell) => cell.trim());

interface Point {
  readonly number: number;
  readonly article: string;
  readonly what: string;
  readonly rows: readonly string[];
  readonly carriers: readonly string[];
}

const points: Point[] = section("## Points")
  .map(cells)
  .filter(([number]) => /^\d+$/.test(number ?? ""))
  .map(([number, article = "", what = "", rows = "", carriers = ""]) => ({
    number: Number(number),
    article,
    what,
    rows: rows === "–" ? [] : rows.split(" "),
    carriers: carriers.split(" · ").filter((one) => one !== ""),
  }));

const explained = new Set([...section("### Rows"), ...section("### Faults")].map((row) => cells(row)[0] ?? ""));

// The first argument of it, test, describe and eachStore, and of what their each() returns.
const TITLE =
  /(?:\b(?:it|test|describe|eachStore)(?:\.\w+)*|\))\(\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)/g;
const known = new Map<string, string[]>();
function titles(file: string): string[] {
  const found =
    known.get(file) ??
    [...readFileSync(join(root, file), "utf8").matchAll(TITLE)].map(([, literal = ""]) => literal.slice(1, -1));
  known.set(file, found);
  return found;
}

/** Test files below a folder, by their paths from the root. */
function testsBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return entry.name === "node_modules" ? [] : testsBelow(path);
    return path.endsWith(".test.ts") ? [path] : [];
  });
}

const testFiles = [...testsBelow("src"), ...testsBelow("test")];

/** Headings as links name them. */
function headings(text: string): string[] {
  const withoutCode = text.replace(/^```[\s\S]*?^```/gm, "");
  return [...withoutCode.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[`*_]/g, "")
      .replace(/[^\p{L}\p{N}_\- ]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** What is wrong with a carrier; null: it is there. */
function problem(carrier: string): string | null {
  if (carrier.startsWith("planned:")) return PLANNED.test(carrier) ? null : "names no feature that is planned";
  const { file, name } = /^`(?<file>[^`]+)` "(?<name>.+)"$/.exec(carrier)?.groups ?? {};
  if (file !== undefined && name !== undefined) {
    if (!existsSync(join(root, file))) return `there is no ${file}`;
    if (name.length < DISTINCTIVE) return `"${name}" is too short to tell tests apart`;
    return titles(file).some((title) => title.includes(name)) ? null : `no test in ${file} has "${name}" in its name`;
  }
  const { target } = /^\[[^\]]+\]\((?<target>[^)]+)\)$/.exec(carrier)?.groups ?? {};
  if (target === undefined) return "is neither a test, a page nor planned";
  const [path = "", heading] = target.split("#");
  const document = join(root, dirname("docs/requirements.md"), path);
  if (!existsSync(document)) return `there is no docs/${path}`;
  if (heading === undefined) return null;
  return headings(readFileSync(document, "utf8")).includes(heading) ? null : `docs/${path} has no heading #${heading}`;
}

describe("docs/requirements.md", () => {
  it("has the points 1 to 205, in order, each in words", () => {
    expect(points.map(({ number }) => number)).toEqual(Array.from({ length: POINTS }, (_, at) => at + 1));
    const byArticle = Object.fromEntries(
      Object.keys(BY_ARTICLE).map((id) => [id, points.filter(({ article }) => article === id).length]),
    );
    expect(byArticle).toEqual(BY_ARTICLE);
    expect(points.filter(({ what }) => what.length < 8)).toEqual([]);
  });

  it("has a carrier for each point, and each carrier exists", () => {
    expect(points.filter(({ carriers }) => carriers.length === 0)).toEqual([]);
    const problems = points.flatMap(({ number, carriers }) =>
      carriers.flatMap((carrier) => {
        const wrong = problem(carrier);
        return wrong === null ? [] : [`${number}: ${carrier}: ${wrong}`];
      }),
    );
    expect(problems).toEqual([]);
  });

  it("finds what is wrong with a carrier", () => {
    const wrong = [
      '`test/requirements.test.ts` "no test has this name"',
      '`test/absent.test.ts` "finds what is wrong with a carrier"',
      "[guide: Nothing](guide.md#nothing)",
      "[absent](absent.md)",
      "planned: something",
      "somewhere",
    ];
    expect(wrong.map(problem)).not.toContain(null);
    expect(problem('`test/requirements.test.ts` "finds what is wrong with a carrier"')).toBeNull();
  });

  it("explains the ids that it uses, and those at the beginning of a test's name", () => {
    const used = points.flatMap(({ rows }) => rows);
    const inTests = testFiles.flatMap((file) =>
      titles(file).flatMap((title) => /^(?:[KOBWRADMPF]\d{1,2}(?:[ ,:]+|$))+/.exec(title)?.[0].match(/\w+/g) ?? []),
    );
    expect([...new Set([...used, ...inTests])].filter((id) => !explained.has(id))).toEqual([]);
    expect(inTests.length).toBeGreaterThan(500);
  });

  it.each(SHOWN)("has tests with %s in their names", (id) => {
    const named = testFiles.filter((file) => titles(file).some((title) => new RegExp(`\\b${id}\\b`).test(title)));
    expect(named).not.toEqual([]);
  });
});
