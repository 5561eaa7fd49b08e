// Private PostgreSQL, PgBouncer, Redis and Redis Cluster, for benches and debugging:
//   node scripts/services.mjs                    prints their addresses as export lines, up until Ctrl-C
//   node scripts/services.mjs redis              only that one (postgres, pgbouncer, redis, cluster)
//   node scripts/services.mjs postgres -- psql   up while the command runs, which has the addresses in its environment
import { spawn } from "node:child_process";
import { KINDS, startAll } from "./services/start-all.mjs";

const args = process.argv.slice(2);
const dashes = args.indexOf("--");
const kinds = dashes < 0 ? args : args.slice(0, dashes);
const command = dashes < 0 ? [] : args.slice(dashes + 1);

const unknown = kinds.filter((kind) => !KINDS.includes(kind));
if (unknown.length > 0) {
  process.stderr.write(`${unknown.join(", ")}: not one of ${KINDS.join(", ")}\n`);
  process.exit(2);
}

// While the servers start, a signal ends this process as usual, and the keeper cleans up.
const { addresses, close } = await startAll(kinds.length > 0 ? kinds : KINDS).catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
const code = command.length > 0 ? await runWith(command, addresses) : await untilInterrupted(addresses);
await close();
process.exit(code);

function untilInterrupted(variables) {
  // Listening before it says so: whoever reads "up" may end it in the same moment.
  const interrupted = new Promise((ended) => {
    const alive = setInterval(() => {}, 60_000);
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
      process.once(signal, () => {
        clearInterval(alive);
        ended(0);
      });
    }
  });
  for (const [name, value] of Object.entries(variables)) process.stdout.write(`export ${name}='${value}'\n`);
  process.stderr.write("up; Ctrl-C ends them and removes their folder\n");
  return interrupted;
}

function runWith([file, ...rest], variables) {
  return new Promise((ended) => {
    const child = spawn(file, rest, { stdio: "inherit", env: { ...process.env, ...variables } });
    // Ctrl-C reaches the command by itself; a plain kill has to be passed on.
    process.on("SIGINT", () => {});
    process.on("SIGTERM", () => child.kill("SIGTERM"));
    child.once("error", (error) => {
      process.stderr.write(`${error.message}\n`);
      ended(127);
    });
    child.once("exit", (code) => ended(code ?? 1));
  });
}
