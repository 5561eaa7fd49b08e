// node scripts/tool.mjs <biome|knip|publint|attw> [argument …]: runs a tool of tools/, installed there at its first use.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const [name = "", ...args] = process.argv.slice(2);
const root = fileURLToPath(new URL("..", import.meta.url));
const windows = process.platform === "win32";

const ensured = spawnSync(process.execPath, [join(root, "scripts/ensure-package.mjs"), "tools"], { stdio: "inherit" });
if (ensured.status !== 0) process.exit(ensured.status ?? 1);
const tool = join(root, "tools/node_modules/.bin", windows ? `${name}.cmd` : name);
const done = spawnSync(tool, args, { cwd: root, stdio: "inherit", shell: windows });
if (done.error) console.error(`tools/ has no program ${JSON.stringify(name)}: ${done.error.message}`);
process.exit(done.status ?? 1);
