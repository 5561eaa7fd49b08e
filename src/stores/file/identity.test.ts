import { linkSync, mkdirSync, realpathSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { identityOf, realPathOf, refuseHardLinks, refuseLoneMount } from "./identity.ts";

let folder: string;
let file: string;

beforeEach(() => {
  folder = realpathSync(temporaryFolder());
  mkdirSync(join(folder, "data"));
  file = join(folder, "data", "ledger");
});

describe("realPathOf", () => {
  const paths: readonly (readonly [what: string, path: () => string])[] = [
    ["the path itself", () => file],
    ["a path with ..", () => join(folder, "data", "x").concat("/../ledger")],
    ["a path with a trailing slash", () => `${file}/`],
    ["a relative path", () => relative(process.cwd(), file)],
    [
      "a symbolic link",
      () => {
        symlinkSync(file, join(folder, "link"));
        return join(folder, "link");
      },
    ],
    [
      "a relative symbolic link",
      () => {
        symlinkSync("data/ledger", join(folder, "link"));
        return join(folder, "link");
      },
    ],
    [
      "a link to a link",
      () => {
        symlinkSync("data/ledger", join(folder, "first"));
        symlinkSync(join(folder, "first"), join(folder, "second"));
        return join(folder, "second");
      },
    ],
    [
      "a linked folder",
      () => {
        symlinkSync("data", join(folder, "linked"));
        return join(folder, "linked", "ledger");
      },
    ],
    [
      "a relative link inside a linked folder",
      () => {
        symlinkSync("data", join(folder, "linked"));
        symlinkSync("ledger", join(folder, "data", "current"));
        return join(folder, "linked", "current");
      },
    ],
  ];

  it.each(paths)("%s leads to the file, whether or not it exists yet", (_what, pathOf) => {
    const path = pathOf();
    expect(realPathOf(path)).toBe(file);
    writeFileSync(file, "");
    expect(realPathOf(path)).toBe(file);
  });

  it("a link to a file in a folder that does not exist yet leads to where it would be created", () => {
    symlinkSync(join(folder, "later", "deeper", "ledger"), join(folder, "link"));
    expect(realPathOf(join(folder, "link"))).toBe(join(folder, "later", "deeper", "ledger"));
    expect(realPathOf(join(folder, "not", "yet", "ledger"))).toBe(join(folder, "not", "yet", "ledger"));
  });

  it("links that lead to each other are an error", () => {
    symlinkSync("b", join(folder, "a"));
    symlinkSync("a", join(folder, "b"));
    expect(() => realPathOf(join(folder, "a"))).toThrow(/ELOOP/);
  });
});

describe("identityOf", () => {
  it("is one for every path to a file, and another after the file was replaced", () => {
    writeFileSync(file, "");
    symlinkSync(file, join(folder, "link"));
    const before = identityOf(file);
    expect(before?.links).toBe(1);
    expect(identityOf(join(folder, "link"))).toEqual(before);
    writeFileSync(`${file}.new`, "");
    renameSync(`${file}.new`, file);
    expect(identityOf(file)?.inode).not.toBe(before?.inode);
    expect(identityOf(join(folder, "gone"))).toBeNull();
  });

  it("a file with two names is refused, with what to do", () => {
    writeFileSync(file, "");
    refuseHardLinks(file, identityOf(file)?.links ?? 0);
    linkSync(file, join(folder, "second"));
    expect(() => refuseHardLinks(file, identityOf(file)?.links ?? 0)).toThrow(/has 2 names \(hard links\).*-samefile/);
  });
});

describe("refuseLoneMount", () => {
  const mounts = [
    "22 1 0:21 / / rw,relatime - overlay overlay rw",
    "514 22 8:1 /srv/ledger.jsonl /app/my\\040data/ledger.jsonl rw,relatime - ext4 /dev/sda1 rw",
    "515 22 8:1 /srv/data /data rw,relatime - ext4 /dev/sda1 rw",
  ].join("\n");

  it("a file that is mounted by itself is refused; one in a mounted folder is not", () => {
    expect(() => refuseLoneMount("/app/my data/ledger.jsonl", mounts)).toThrow(
      /mounted as a single file.*Mount the folder instead: -v \/srv\/data:\/app\/my data/,
    );
    refuseLoneMount("/data/ledger.jsonl", mounts);
    refuseLoneMount("/app/my data/other.jsonl", mounts);
    refuseLoneMount("/data/ledger.jsonl", "");
    writeFileSync(file, "");
    refuseLoneMount(file);
  });
});
