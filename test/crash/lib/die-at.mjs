/**
 * Loaded into a runner with `node --import`: it is stopped (SIGSTOP) or killed (SIGKILL) at a named place between its claim of
 * the slot and the start of the command. NEVERTWICE_TEST_DIE="<place> <signal>".
 */
import childProcess from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { Socket } from "node:net";

const [place, signal] = (process.env.NEVERTWICE_TEST_DIE ?? "").split(" ");
delete process.env.NEVERTWICE_TEST_DIE;
// The command and the plan are not to load this file.
delete process.env.NODE_OPTIONS;

const die = () => process.kill(process.pid, signal);
const at = (name) => name === place && die();
const isGate = (args) => args?.[1]?.includes("NEVERTWICE_GATE_WORD");
let gate = null;

const { openSync } = fs;
fs.openSync = (path, ...rest) => {
  if (String(path).endsWith(".open")) at("claimed");
  return openSync(path, ...rest);
};
const { spawn } = childProcess;
childProcess.spawn = (command, args, ...rest) => {
  if (!isGate(args)) return spawn(command, args, ...rest);
  at("file-made");
  gate = spawn(command, args, ...rest);
  at("gate-started");
  return gate;
};
syncBuiltinESMExports();

const { end } = Socket.prototype;
/** @this {Socket} */
Socket.prototype.end = function (...args) {
  if (args[0] === "go\n") {
    if (place === "marked-all") {
      process.kill(-gate.pid, "SIGKILL");
      die();
    }
    at("marked");
  }
  return Reflect.apply(end, this, args);
};
