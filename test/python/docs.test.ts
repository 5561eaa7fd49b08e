/** D7: what docs/python.md promises: each block marked "run" is a program, and prints what its "# → " comments say. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { cleanUp, temporaryFolder } from "../crash/lib/processes.mjs";
import { PYTHON, startPython, startService } from "./lib.mjs";

const page = readFileSync(fileURLToPath(new URL("../../docs/python.md", import.meta.url)), "utf8");
const blocks = [...page.matchAll(/^```python\b([^\n]*)\n(.*?)^```$/gms)].map(([, info = "", code = ""], at) => ({
  name: `block ${at + 1}`,
  runs: info.trim() === "run",
  code,
  prints: [...code.matchAll(/# → (.*)$/gm)].map(([, text = ""]) => text.trimEnd()),
}));

afterAll(cleanUp);

it.each(blocks.filter(({ runs }) => runs))(
  "D7: docs/python.md, $name prints what it says",
  async ({ code, prints }) => {
    const { url, process } = await startService({ store: `sqlite:${temporaryFolder()}/ledger.db` });
    const printed: string[] = [];
    const python = startPython(["-u", "-c", lines(code)], { url, provider: "" });
    python
      .says((said) => {
        printed.push(said.text.slice(2));
        return false;
      })
      .catch(() => {});
    const { code: exit } = await python.exited;
    process.end();
    expect(exit, python.stderr).toBe(0);
    expect(printed).toEqual(prints);
  },
);

it.each(blocks.filter(({ runs }) => !runs))("D7: docs/python.md, $name parses", ({ code }) => {
  const { status, stderr } = spawnSync(PYTHON, ["-c", "import ast, sys; ast.parse(sys.argv[1])", code], {
    encoding: "utf8",
  });
  expect(status, stderr).toBe(0);
});

/** Every line that is printed as one that the harness passes on as text, whatever it looks like. */
function lines(code: string): string {
  return `import builtins\n_print = print\ndef print(*what): _print("=", *what)\nbuiltins.print = print\n${code}`;
}
