// node run.mjs <provider> <guarded | bare>: one step whose answer is lost, on Vercel Workflow's local world.
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildWorkflowTests, setupWorkflowTests, teardownWorkflowTests } from "@workflow/vitest";
import { start } from "workflow/api";
import { nevertwice } from "../../../dist/index.js";

const [url, way] = process.argv.slice(2);
// Inside the package, so that what is bundled finds its packages; not in git.
const rootDir = fileURLToPath(new URL(`./.nevertwice/${process.pid}`, import.meta.url));
mkdirSync(rootDir, { recursive: true });
const nt = nevertwice({ store: "memory:", sweep: false });
const deliver = async (to, mail) =>
  (await fetch(to, { method: "POST", body: JSON.stringify(mail), headers: { connection: "close" } })).json();
const action = nt.action("send_mail", { key: ["to"], run: (mail) => deliver(url, mail) });
globalThis.world = { deliver, action: way === "bare" ? null : action };

const options = { cwd: fileURLToPath(new URL(".", import.meta.url)), rootDir };
await buildWorkflowTests(options);
await setupWorkflowTests(options);
const [workflowId] = /workflow\/\/[^"\\]*mailing[^"\\]*/.exec(
  readFileSync(`${rootDir}/.workflow-vitest/workflows.mjs`, "utf8"),
);
const run = await start({ workflowId }, [url]);
const ended = await run.returnValue.catch((error) => ({ message: error.message }));
console.log(`ended: ${JSON.stringify(ended)}`);
await teardownWorkflowTests();
rmSync(rootDir, { recursive: true, force: true });
process.exit(0);
