/** A Unix socket that only its owner reaches, and that a killed service does not keep from being made again. */
import { chmodSync, lstatSync, rmSync } from "node:fs";
import { connect, type Server } from "node:net";
import { configError } from "../core/errors.ts";

const OWNER_ONLY = 0o600;

export async function listenOnSocket(server: Server, path: string): Promise<void> {
  await removeLeftOver(path);
  await new Promise<void>((done, failed) => {
    server.once("error", failed);
    // Bound at once, and closed to others from its first moment on: between a bind and a chmod anybody could connect.
    const before = process.umask(0o177);
    try {
      server.listen(path, done);
    } finally {
      process.umask(before);
    }
  });
  chmodSync(path, OWNER_ONLY);
}

/** The socket of a service that was killed is there, and nobody listens on it. */
async function removeLeftOver(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket())
    throw configError(`--socket ${path}: there is something else at that path. Remove it, or name another path.`);
  if (await answers(path))
    throw configError(`--socket ${path}: another service listens there. Stop it, or name another path.`);
  rmSync(path, { force: true });
}

function answers(path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      done(true);
    });
    socket.once("error", () => done(false));
  });
}
