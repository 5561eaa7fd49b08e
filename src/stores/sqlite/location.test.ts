import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { defaultLocation, prepareFolder, type Surroundings } from "./location.ts";

const around = (cwd: string, more: Partial<Surroundings> = {}): Surroundings => ({
  cwd,
  env: {},
  platform: "linux",
  home: "/home/ana",
  ...more,
});

describe("D5 defaultLocation", () => {
  it("lies beside the nearest package.json, from any folder below it", () => {
    const root = temporaryFolder();
    writeFileSync(join(root, "package.json"), "{}");
    const deep = join(root, "src", "jobs");
    mkdirSync(deep, { recursive: true });
    for (const cwd of [root, deep]) {
      expect(defaultLocation(around(cwd))).toEqual({
        path: join(root, ".nevertwice", "ledger.db"),
        why: "beside the nearest package.json",
      });
    }
  });

  it("an existing .nevertwice folder nearer than that wins", () => {
    const root = temporaryFolder();
    writeFileSync(join(root, "package.json"), "{}");
    mkdirSync(join(root, "app", ".nevertwice"), { recursive: true });
    expect(defaultLocation(around(join(root, "app"))).path).toBe(join(root, "app", ".nevertwice", "ledger.db"));
  });

  it("a package inside node_modules is not the project", () => {
    const root = temporaryFolder();
    writeFileSync(join(root, "package.json"), "{}");
    const inside = join(root, "node_modules", "tool");
    mkdirSync(inside, { recursive: true });
    writeFileSync(join(inside, "package.json"), "{}");
    expect(defaultLocation(around(inside)).path).toBe(join(root, ".nevertwice", "ledger.db"));
  });

  it("without a project it is the user's state folder, as each system has it", () => {
    const path = (more: Partial<Surroundings>) => defaultLocation(around("/", more)).path;
    expect(path({})).toBe("/home/ana/.local/state/nevertwice/ledger.db");
    expect(path({ env: { XDG_STATE_HOME: "/state" } })).toBe("/state/nevertwice/ledger.db");
    expect(path({ platform: "darwin" })).toBe("/home/ana/Library/Application Support/nevertwice/ledger.db");
    expect(path({ platform: "win32", env: { LOCALAPPDATA: "/local" } })).toBe("/local/nevertwice/ledger.db");
  });

  it.each([
    ["AWS_LAMBDA_FUNCTION_NAME", "AWS Lambda"],
    ["VERCEL", "Vercel"],
    ["NETLIFY", "Netlify"],
    ["K_SERVICE", "Cloud Run"],
    ["CLOUD_RUN_JOB", "Cloud Run"],
    ["FUNCTION_TARGET", "Cloud Functions"],
    ["FUNCTIONS_WORKER_RUNTIME", "Azure Functions"],
    ["DYNO", "Heroku"],
  ])("is refused where the disk does not last (%s), with what to do instead", (variable, platform) => {
    const look = () => defaultLocation(around("/", { env: { [variable]: "1" } }));
    expect(look).toThrow(expect.objectContaining({ code: "CONFIG" }));
    expect(look).toThrow(
      new RegExp(`runs on ${platform}, whose disk does not last.*postgres:\\/\\/.*redis:\\/\\/.*name the file`),
    );
  });
});

describe("prepareFolder", () => {
  it("makes the folder with a .gitignore of its own, once", () => {
    const path = join(temporaryFolder(), "app", ".nevertwice", "ledger.db");
    prepareFolder(path);
    expect(readFileSync(join(path, "..", ".gitignore"), "utf8")).toBe("*\n");
    writeFileSync(join(path, "..", ".gitignore"), "changed");
    prepareFolder(path);
    expect(readFileSync(join(path, "..", ".gitignore"), "utf8")).toBe("changed");
    expect(existsSync(path)).toBe(false);
  });

  it("a folder that cannot be made is a CONFIG error that says what to do", () => {
    const file = join(temporaryFolder(), "file");
    writeFileSync(file, "");
    const path = join(file, ".nevertwice", "ledger.db");
    expect(() => prepareFolder(path)).toThrow(/cannot be written.*postgres:\/\/.*redis:\/\/.*name a writable file/s);
    expect(() => prepareFolder(path)).toThrow(expect.objectContaining({ code: "CONFIG" }));
  });
});
