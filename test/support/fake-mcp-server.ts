/** An McpServer as both SDKs have it, without a protocol: it keeps what is registered. */
type Call = (...args: unknown[]) => Promise<unknown>;

interface Kept {
  inputSchema?: unknown;
  annotations?: unknown;
  handler: unknown;
  update(updates: { callback?: unknown }): void;
}

export class FakeMcpServer {
  readonly _registeredTools: Record<string, Kept> = {};
  readonly server = {
    _requestHandlers: new Map<string, unknown>(),
    setRequestHandler: () => {},
    request: async () => ({}),
  };

  registerTool(name: string, config: object, callback: (...args: never[]) => unknown): unknown {
    return this.#keep(name, config, callback);
  }

  /** Only with a description and a shape or annotations. */
  tool(name: string, _description: string, given: object, callback: (...args: never[]) => unknown): unknown {
    const isShape = Object.values(given).every((value) => typeof value === "object");
    return this.#keep(name, isShape ? { inputSchema: given } : { annotations: given }, callback);
  }

  #keep(name: string, config: object, handler: unknown): Kept {
    const kept: Kept = {
      ...config,
      handler,
      update: ({ callback }) => {
        if (callback !== undefined) kept.handler = callback;
      },
    };
    this._registeredTools[name] = kept;
    return kept;
  }

  /** What the SDK would call. */
  handler(name: string): Call {
    return this._registeredTools[name]?.handler as Call;
  }
}
