/**
 * Ten MCP servers from npm that we did not write, each with a session as an agent would have it: the same call on purpose
 * more than once, and one call whose effect can be counted. All of them work offline.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { EVERYTHING, FILESYSTEM, MEMORY } from "./mcp.ts";

const packages = fileURLToPath(new URL("../mcp-servers/node_modules", import.meta.url));

export interface ToolUse {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

export interface NpmServer {
  readonly name: string;
  /** A program for node, and what it is started with; `place` is a folder of this session's own. */
  argv(place: string): string[];
  env?(place: string): Record<string, string>;
  /** Repeats that are meant. Answers and effects must be the same with and without the proxy. */
  session(place: string): readonly ToolUse[];
  /** A call that acts: when its answer is lost, it is not made again. Absent: the server has none by its own word. */
  once?(place: string): ToolUse;
  /** What has to be there first. */
  before?(place: string): void;
  /** How often `once` has had its effect, by the server's files. Absent: it keeps none. */
  effects?(place: string): number;
  /** By itself the server has the effect of `once` a single time, however often it is called. */
  absorbs?: true;
}

const textIn = (...path: string[]) => (existsSync(join(...path)) ? readFileSync(join(...path), "utf8") : "");
const count = (text: string, what: string) => text.split(what).length - 1;

const use = (name: string, args: Readonly<Record<string, unknown>> = {}): ToolUse => ({ name, arguments: args });

export const NPM_SERVERS: readonly NpmServer[] = [
  {
    name: "server-filesystem",
    argv: (place) => [FILESYSTEM, place],
    session: (place) => {
      const path = join(place, "note.txt");
      const write = (content: string) => use("write_file", { path, content });
      const edit = (oldText: string, newText: string) => use("edit_file", { path, edits: [{ oldText, newText }] });
      const read = use("read_text_file", { path });
      return [
        ...[write("v1"), write("v2"), write("v1"), read],
        ...[edit("v1", "v2"), edit("v2", "v1"), edit("v1", "v2"), edit("v2", "v1"), read],
        ...[use("move_file", { source: path, destination: `${path}.old` }), write("v1")],
        ...[use("move_file", { source: `${path}.old`, destination: `${path}.older` }), read],
      ];
    },
    before: (place) => writeFileSync(join(place, "once.txt"), "x"),
    once: (place) => use("edit_file", { path: join(place, "once.txt"), edits: [{ oldText: "x", newText: "xx" }] }),
    effects: (place) => count(textIn(place, "once.txt"), "x") - 1,
  },
  {
    name: "server-memory",
    argv: () => [MEMORY],
    env: (place) => ({ MEMORY_FILE_PATH: join(place, "memory.jsonl") }),
    session: () => {
      const ada = use("create_entities", { entities: [{ name: "Ada", entityType: "person", observations: ["v1"] }] });
      const gone = use("delete_entities", { entityNames: ["Ada"] });
      const graph = use("read_graph");
      return [ada, graph, gone, graph, ada, graph, ada, gone, ada, graph];
    },
    once: () => use("create_entities", { entities: [{ name: "Once", entityType: "person", observations: [] }] }),
    effects: (place) => count(textIn(place, "memory.jsonl"), '"name":"Once"'),
    absorbs: true,
  },
  {
    name: "server-everything",
    argv: () => [EVERYTHING],
    session: () => {
      const toggle = use("toggle-subscriber-updates");
      const echo = use("echo", { message: "v1" });
      return [toggle, toggle, toggle, echo, echo, toggle];
    },
    once: () => use("toggle-subscriber-updates"),
  },
  {
    name: "server-sequential-thinking",
    argv: () => [join(packages, "@modelcontextprotocol/server-sequential-thinking/dist/index.js")],
    session: () => {
      const thought = { thought: "again", nextThoughtNeeded: true, thoughtNumber: 1, totalThoughts: 3 };
      return [1, 2, 3].map(() => use("sequentialthinking", thought));
    },
  },
  {
    name: "mcp-taskmanager",
    argv: () => [join(packages, "@kazuph/mcp-taskmanager/dist/index.js")],
    env: (place) => ({ TASK_MANAGER_FILE_PATH: join(place, "tasks.json") }),
    session: () => {
      const tasks = ["one", "two", "three"].map((title) => ({ title, description: title }));
      const next = use("get_next_task", { requestId: "req-1" });
      const done = (task: string) => [
        use("mark_task_done", { requestId: "req-1", taskId: task, completedDetails: "done" }),
        use("approve_task_completion", { requestId: "req-1", taskId: task }),
      ];
      return [
        use("request_planning", { originalRequest: "the plan", tasks }),
        ...[next, ...done("task-1"), next, ...done("task-2"), next, ...done("task-3"), next],
        use("request_planning", { originalRequest: "the plan", tasks }),
        use("list_requests"),
      ];
    },
    once: () => use("request_planning", { originalRequest: "once", tasks: [{ title: "a", description: "b" }] }),
    effects: (place) => count(textIn(place, "tasks.json"), '"originalRequest": "once"'),
  },
  {
    name: "memory-bank (allpepper)",
    argv: () => [join(packages, "@allpepper/memory-bank-mcp/dist/main/index.js")],
    env: (place) => ({ MEMORY_BANK_ROOT: place }),
    session: () => {
      const file = { projectName: "p", fileName: "notes.md" };
      const update = (content: string) => use("memory_bank_update", { ...file, content });
      const read = use("memory_bank_read", file);
      return [
        use("memory_bank_write", { ...file, content: "v1" }),
        ...[update("v2"), read, update("v1"), read, update("v2"), read, update("v1"), read],
      ];
    },
    once: () => use("memory_bank_write", { projectName: "p", fileName: "once.md", content: "once" }),
    effects: (place) => count(textIn(place, "p", "once.md"), "once"),
    absorbs: true,
  },
  {
    name: "mcp-server-commands",
    argv: () => [join(packages, "mcp-server-commands/build/index.js")],
    session: (place) => {
      const count = use("run_command", {
        command: `printf x >> ${join(place, "count")}; wc -c < ${join(place, "count")}`,
      });
      return [count, count, count, use("run_command", { command: "echo v1" }), count];
    },
    once: (place) => use("run_command", { command: `printf x >> ${join(place, "once")}` }),
    effects: (place) => count(textIn(place, "once"), "x"),
  },
  {
    name: "mcpvault",
    argv: (place) => [join(packages, "@bitbonsai/mcpvault/dist/server.js"), place],
    session: () => {
      const path = "note.md";
      const append = use("write_note", { path, content: "again\n", mode: "append" });
      const write = (content: string) => use("write_note", { path, content });
      const tag = (operation: string) => use("manage_tags", { path, operation, tags: ["on"] });
      const read = use("read_note", { path });
      return [
        ...[write("v1\n"), write("v2\n"), write("v1\n"), read, append, append, append, read],
        ...[tag("add"), tag("remove"), tag("add"), read],
      ];
    },
    once: () => use("write_note", { path: "once.md", content: "once\n", mode: "append" }),
    effects: (place) => count(textIn(place, "once.md"), "once"),
  },
  {
    name: "mcp-knowledge-graph",
    argv: (place) => [
      join(packages, "@itseasy21/mcp-knowledge-graph/dist/index.js"),
      "--memory-path",
      join(place, "graph.jsonl"),
    ],
    session: () => {
      const open = use("open_nodes", { names: ["Ada"] });
      const create = use("create_entities", { entities: [{ name: "Ada", entityType: "person", observations: [] }] });
      const gone = use("delete_entities", { entityNames: ["Ada"] });
      return [create, gone, create, gone, create, use("delete_observations", { deletions: [] }), gone, open];
    },
    before: (place) => {
      const entity = { type: "entity", name: "Once", entityType: "person", observations: [], version: 0 };
      writeFileSync(join(place, "graph.jsonl"), `${JSON.stringify(entity)}\n`);
    },
    once: () => use("update_entities", { entities: [{ name: "Once", entityType: "robot" }] }),
    effects: (place) => Number(/"version":(\d+)/.exec(textIn(place, "graph.jsonl"))?.[1]),
  },
  {
    name: "memory-bank (movibe)",
    argv: (place) => [join(packages, "@movibe/memory-bank-mcp/build/index.js"), "--path", place],
    session: (place) => {
      const write = (content: string) => use("write_memory_bank_file", { filename: "note.md", content });
      const read = use("read_memory_bank_file", { filename: "note.md" });
      const mode = (name: string) => use("switch_mode", { mode: name });
      return [
        use("initialize_memory_bank", { path: place }),
        ...[write("v1"), read, write("v2"), read, write("v1"), read],
        ...[mode("code"), mode("ask"), mode("code")],
      ];
    },
    once: (place) => use("initialize_memory_bank", { path: place }),
    effects: (place) => count(textIn(place, "memory-bank", "progress.md"), "# Project Progress"),
    absorbs: true,
  },
];

/** What a session has left in its folder: the files and what they hold. */
export function leftIn(place: string): Record<string, string> {
  const left: Record<string, string> = {};
  const visit = (folder: string, under: string) => {
    for (const name of readdirSync(folder).toSorted()) {
      if (name.startsWith("ledger.db") || name === "tools.json" || name.startsWith("door.")) continue;
      const path = join(folder, name);
      if (statSync(path).isDirectory()) visit(path, `${under}${name}/`);
      else left[`${under}${name}`] = readFileSync(path, "utf8");
    }
  };
  if (existsSync(place)) visit(place, "");
  return left;
}
