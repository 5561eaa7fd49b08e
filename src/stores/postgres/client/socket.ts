/**
 * The sockets of the ledger's own pool. Node sets 64 KiB aside for every packet it reads and hands it on through a
 * stream's queue; an answer to a claim has fifty bytes. Here it is read into one place and copied at its size: a lone caller
 * waits for two answers in each call (`npm run bench -- postgres`, one caller).
 */
import { Socket, type SocketConstructorOpts } from "node:net";

const READ_BYTES = 65_536;

// One for all: what was read is copied before anything else is read.
let place: Buffer | null = null;

interface OnRead {
  readonly buffer: Uint8Array;
  callback(size: number, read: Uint8Array): boolean;
}

/** For pg's `stream`, which asks for one for each connection. Under TLS it is not the socket that is read. */
export function ledgerSocket({ ssl }: { readonly ssl?: unknown }): Socket {
  if (ssl) return new Socket();
  place ??= Buffer.allocUnsafeSlow(READ_BYTES);
  // Not every version of Node's types knows it.
  const options: SocketConstructorOpts & { readonly onread: OnRead } = {
    onread: {
      buffer: place,
      callback: (size, read) => {
        const chunk = Buffer.allocUnsafe(size);
        chunk.set(read.subarray(0, size));
        socket.emit("data", chunk);
        return true;
      },
    },
  };
  const socket = new Socket(options);
  return socket;
}
