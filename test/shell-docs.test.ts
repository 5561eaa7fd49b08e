/**
 * The shell in the documents: each block marked "run" (```sh run) is run, those of a page in one folder and one shell. What it
 * prints must be what its "# → " comments say, in order.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { readJson } from "../src/core/strict-json.ts";
import { openMemory, temporaryFolder } from "./support/each-store.ts";
import { served } from "./support/served.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const DEFAULT_PORT = "7433";

async function freePort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((done) => void server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return String(port);
}

function blocksOf(path: string, kind: string): string[] {
  const text = readFileSync(join(root, path), "utf8");
  return [...text.matchAll(new RegExp(`^\`\`\`${kind}\\n(.*?)^\`\`\`$`, "gms"))].map(([, code = ""]) => code);
}

it.each(["docs/serve.md", "docs/shell.md"])("D7: the shell in %s does what it says", async (path) => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "bin"));
  writeFileSync(join(folder, "package.json"), "{}\n");
  const command = join(folder, "bin", "nevertwice");
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${join(root, "dist/cli/main.js")}" "$@"\n`);
  chmodSync(command, 0o755);
  const blocks = blocksOf(path, "sh run");
  const script = blocks.join("\n").replaceAll(DEFAULT_PORT, await freePort());
  const env = { PATH: `${join(folder, "bin")}:${process.env.PATH}`, HOME: folder };
  // What a page starts in the background ends with it.
  const ending = "trap 'for job in $(jobs -p); do kill \"$job\"; done' EXIT\n";
  const { status, stdout, stderr } = spawnSync("bash", ["-c", ending + script], { cwd: folder, env, encoding: "utf8" });
  const says = [...script.matchAll(/^# → (.*)$/gm)].map(([, line = ""]) => line);
  expect({ status, printed: stdout.split("\n").filter(Boolean) }, stderr).toEqual({
    status: 0,
    printed: says,
  });
  expect(blocks.length).toBeGreaterThan(2);
});

it("D7: the service takes the bodies of docs/n8n.md", async () => {
  const { post, ok } = await served(openMemory().store);
  const filled = (text: string, token = "") =>
    text.replace(/\{\{ \$\('IF claimed'\)\.item\.json\.token \}\}/, token).replace(/\{\{ [^}]* \}\}/g, "x");
  const [claim = "", done = "", unknown = ""] = blocksOf("docs/n8n.md", "json");
  for (const text of [claim, done, unknown]) expect(readJson(filled(text)).ok).toBe(true);
  const first = await ok("claim", filled(claim));
  expect(first.status).toBe("claimed");
  expect((await post("settle", filled(unknown, first.token))).body.status).toBe("unknown");
  expect((await post("settle", filled(done, first.token))).body.status).toBe("done");
});
