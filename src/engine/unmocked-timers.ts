/**
 * Timers for a process in which `node:test` had mocked its own before this package was loaded: the mocks hide what they replace.
 * A socket's idle timeout is a timer of Node's own that is not mocked, and a message to oneself comes in the next turn of the
 * event loop. Only tests ever use this.
 */
import type { Socket } from "node:net";
import type { MessageChannel, MessagePort } from "node:worker_threads";

// Not imported: every program would load them for it.
const newSocket = (): Socket => new (process.getBuiltinModule("node:net").Socket)();
const newChannel = (): MessageChannel => new (process.getBuiltinModule("node:worker_threads").MessageChannel)();

class SocketTimer {
  readonly #socket = newSocket();
  // A socket's timeout does not keep the process alive; an open port does.
  readonly #alive: MessagePort = newChannel().port1;
  readonly #ms: number;

  constructor(run: () => void, ms: number, repeat: boolean) {
    // For a socket, 0 means no timeout.
    this.#ms = Math.max(1, Math.floor(ms));
    this.#socket.on("timeout", () => {
      if (repeat) this.refresh();
      else this.cancel();
      run();
    });
    this.ref().refresh();
  }

  ref(): this {
    this.#alive.ref();
    return this;
  }

  unref(): this {
    this.#alive.unref();
    return this;
  }

  refresh(): this {
    this.#socket.setTimeout(this.#ms);
    return this;
  }

  cancel(): void {
    this.#alive.close();
    this.#socket.destroy();
  }
}

function cancel(timer: unknown): void {
  if (timer instanceof SocketTimer) timer.cancel();
}

export function unmockedTimers() {
  return {
    setTimeout: (run: () => void, ms: number) => new SocketTimer(run, ms, false),
    setInterval: (run: () => void, ms: number) => new SocketTimer(run, ms, true),
    clearTimeout: cancel,
    clearInterval: cancel,
    setImmediate: (run: () => void) => {
      const { port1, port2 } = newChannel();
      port1.once("message", () => {
        port1.close();
        run();
      });
      port2.postMessage(null);
    },
  };
}
