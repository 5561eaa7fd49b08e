/** Child processes that never outlive the story, however it ends. */
import { fork } from "node:child_process";

const running = new Set();

process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
]) {
  process.once(signal, () => process.exit(code));
}

export function start(file, args, settings = {}) {
  const env = { ...process.env, FIRST_RUN: JSON.stringify(settings) };
  const child = fork(new URL(file, import.meta.url), args, { env, stdio: ["ignore", "inherit", "inherit", "ipc"] });
  running.add(child);
  child.program = file;
  child.once("exit", () => running.delete(child));
  return child;
}

/** The settings a child was started with. */
export function settings() {
  return JSON.parse(process.env.FIRST_RUN);
}

/** In a child: when the story is gone, even by SIGKILL, the channel closes and the child leaves too. */
export function leaveWithTheStory() {
  const leave = () => process.exit(0);
  if (!process.connected) leave();
  process.once("disconnect", leave).once("error", leave);
}

/** The next message of a type; a child that dies first is an error, never a wait without end. */
export function heard(child, type) {
  return new Promise((resolve, reject) => {
    const onMessage = (message) => message.type === type && settle(resolve, message);
    const onExit = (code, signal) =>
      settle(reject, new Error(`${child.program} ended with ${signal ?? code} before it said "${type}"`));
    const settle = (how, value) => {
      child.off("message", onMessage).off("exit", onExit);
      how(value);
    };
    child.on("message", onMessage).on("exit", onExit);
  });
}

export function ended(child) {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.signalCode ?? child.exitCode);
  return new Promise((resolve) => child.once("exit", (code, signal) => resolve(signal ?? code)));
}
