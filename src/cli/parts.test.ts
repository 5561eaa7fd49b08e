/** The small parts, each by itself. */
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { nearest } from "../core/nearest.ts";
import { inspectDisk } from "./ledger/disk.ts";
import { nodeCheck, promises } from "./ledger/health.ts";
import { age, bytes, keepAge, keepSpan, localIso, relative, shellWord } from "./term/format.ts";
import { choosePaint } from "./term/paint.ts";
import { renderTable } from "./term/table.ts";
import { cutTo, visible, widthOf, wrap } from "./term/text.ts";

describe("times", () => {
  it("are short in tables and whole in sentences", () => {
    expect([0, 999, 1_000, 59_000, 60_000, 3_600_000, 86_400_000, 400 * 86_400_000].map(age)).toEqual([
      "0s",
      "1s",
      "1s",
      "59s",
      "1m",
      "1h",
      "1d",
      "1y",
    ]);
    expect(relative(0, 120_000)).toBe("2 minutes ago");
    expect(relative(86_400_000, 0)).toBe("in 1 day");
    expect(relative(5, 6)).toBe("now");
  });

  it("count no day too many, however many there are", () => {
    const days = (count: number) => count * 86_400_000;
    expect([184, 300, 364, 365, 366].map((count) => age(days(count)))).toEqual(["184d", "300d", "364d", "365d", "1y"]);
    expect([45, 184, 300, 364, 366, 732].map((count) => keepAge(days(count) - 5_000))).toEqual([
      "45d",
      "184d",
      "300d",
      "364d",
      "366d",
      "732d",
    ]);
    expect([keepSpan(days(732)), keepSpan(days(36_525)), keepSpan(days(1) - 1)]).toEqual([
      "732 days",
      "36525 days",
      "1 day",
    ]);
    // An hour less is a day less.
    expect([keepAge(days(184) - 3_600_000), keepAge(3_600_000), keepAge(0)]).toEqual(["183d", "1h", "0s"]);
    expect(relative(days(184), 0)).toBe("in 184 days");
  });

  it("are local, with the offset, and mean the same instant", () => {
    const at = Date.UTC(2026, 0, 15, 9, 15, 2);
    expect(localIso(at)).toMatch(/^2026-01-1\dT\d\d:\d\d:02[+-]\d\d:\d\d$/);
    expect(Date.parse(localIso(at))).toBe(at);
    expect(localIso(Number.NaN)).toBe("(not a time)");
  });
});

describe("text", () => {
  it("is measured as a terminal shows it, and cut between characters", () => {
    expect([
      widthOf("abc"),
      widthOf("日本"),
      widthOf("👩‍👩‍👧"),
      widthOf("e\u0301"),
      widthOf("\u001b[31mx\u001b[39m"),
    ]).toEqual([3, 4, 2, 1, 1]);
    expect(cutTo("日本語テキスト", 6)).toBe("日本…");
    expect(cutTo("exactly", 7)).toBe("exactly");
  });

  it("shows control characters instead of obeying them", () => {
    expect(visible("a\u001b[2Jb\u202ec")).toBe("a\\u001b[2Jb\\u202ec");
    expect(visible("héllo 🙂")).toBe("héllo 🙂");
  });

  it("wraps at blanks and leaves long words whole", () => {
    expect(wrap("one two three", 7)).toEqual(["one two", "three"]);
    expect(wrap("a nt1_abcdefghijkl b", 6)).toEqual(["a", "nt1_abcdefghijkl", "b"]);
  });

  it("is quoted for a shell where it needs to be", () => {
    expect([shellWord("sqlite:a/b.db"), shellWord("it's"), shellWord("")]).toEqual([
      "sqlite:a/b.db",
      "'it'\\''s'",
      "''",
    ]);
  });

  it("counts bytes as people do", () => {
    expect([bytes(500), bytes(2.5e6), bytes(84e9), bytes(1.2e12)]).toEqual(["1 kB", "2.5 MB", "84 GB", "1.2 TB"]);
  });
});

describe("tables", () => {
  const paint = choosePaint(false, {});
  it("shrink the widest column first, and never the fixed ones", () => {
    const columns = [
      { title: "key" },
      { title: "a", min: 4 },
      { title: "n", align: "right" as const },
      { title: "b", min: 4 },
    ];
    const lines = renderTable(columns, [["k".repeat(8), "a".repeat(10), "7", "b".repeat(30)]], { width: 34, paint });
    expect(lines).toEqual(["key       a           n  b", `kkkkkkkk  ${"a".repeat(10)}  7  ${"b".repeat(8)}…`]);
  });

  it("go on below themselves where the last column wraps", () => {
    const columns = [{ title: "k" }, { title: "why", min: 5, wraps: true }];
    expect(renderTable(columns, [["1", "one two three"]], { width: 10, paint })).toEqual([
      "k  why",
      "1  one two",
      "   three",
    ]);
  });
});

describe("did you mean", () => {
  const words = ["resolve", "retry", "resend", "ls", "stats", "status"];
  it.each([
    ["reslove", "resolve"],
    ["rety", "retry"],
    ["stat", "stats"],
    ["res", "resolve"],
    ["xyzzy", null],
  ])("%s → %s", (word, meant) => expect(nearest(word, words)).toBe(meant));
});

describe("health", () => {
  it.runIf(process.platform === "linux" && existsSync("/dev/shm"))("knows a disk that is only memory", async () => {
    const checks = await inspectDisk("/dev/shm/not/there/yet/ledger.db");
    expect(checks).toContainEqual(expect.objectContaining({ name: "file system", level: "problem" }));
  });

  it("knows the Node it needs", () => {
    expect(["v18.20.0", "v20.18.9", "v20.19.0", "v22.1.0"].map((v) => nodeCheck(v).level)).toEqual([
      "problem",
      "problem",
      "ok",
      "ok",
    ]);
  });

  it("says in words what a store survives", () => {
    const traits = { clock: "client", dueIndex: true } as const;
    expect(promises({ ...traits, hosts: "many", survives: "best-effort" })[0]).toMatchObject({ level: "note" });
    expect(promises({ ...traits, hosts: "one", survives: "nothing" })[1]).toMatchObject({ value: "one process" });
  });
});
